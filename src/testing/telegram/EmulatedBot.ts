import type { WebhookInfo } from "../../gateway/telegram/Telegram.js"
import type { Update } from "../../gateway/telegram/TelegramUpdate.js"
import { chanceOf } from "./DeliveryRules.js"

/** A Bot API call made by a bot. */
export interface BotCall {
  /** Identifies the bot that made the call. */
  readonly token: string
  /** Method of the Bot API, such as `sendMessage`. */
  readonly method: string
  /** Fields of the request, such as `chat_id` and `text`. */
  readonly parameters: Readonly<Record<string, unknown>>
  /** Whether it came as an HTTP request or in a webhook response. */
  readonly via: "call" | "response"
  /** Whether it was carried out; false if a fault prevented it. */
  readonly done: boolean
}

/** One delivery attempt of an update. */
export interface DeliveryTry {
  /** Identifies the bot that should get the update. */
  readonly token: string
  /** Its `update_id`. */
  readonly update: number
  /** Webhook address that the update was sent to. */
  readonly url: string
  /** Response status; undefined if there was no response or it was dropped on purpose. */
  readonly status: number | undefined
  /** Response body, or the error code if there was no response. */
  readonly body: string
}

/** Where updates are delivered. Several URLs simulate several pods behind one address. */
export interface EmulatedWebhook {
  readonly urls: ReadonlyArray<string>
  readonly secret: string | undefined
  readonly maxConnections: number
  /** Types of updates to deliver. [all] */
  readonly updates?: ReadonlyArray<string> | undefined
}

/** The emulator's state of a bot. */
export interface EmulatedBot {
  readonly token: string
  webhook: EmulatedWebhook | undefined
  nextUpdate: number
  nextMessage: number
  /** Undelivered updates. */
  readonly pending: Set<Update>
  readonly expired: Array<number>
  lastError: string | undefined
  /** Commands last set with `setMyCommands`. */
  commands: ReadonlyArray<unknown>
  /** Waiting `getUpdates` calls. */
  readonly polls: Set<() => void>
}

export const make = (token: string): EmulatedBot => ({
  token,
  webhook: undefined,
  nextUpdate: 1000,
  nextMessage: 1,
  pending: new Set(),
  expired: [],
  lastError: undefined,
  commands: [],
  polls: new Set()
})

/** Returns the bot as in `getMe`. Its id is the first part of its token. */
export const profileOf = ({ token }: EmulatedBot) => {
  const id = Number(/^\d+/.exec(token)?.[0] ?? 1 + Math.floor(chanceOf(0, token) * 2 ** 31))
  return { id, is_bot: true, first_name: `Emulated ${id}`, username: `emulated_${id}_bot` }
}

export const webhookInfo = ({ lastError, pending, webhook }: EmulatedBot): WebhookInfo => ({
  url: webhook?.urls[0] ?? "",
  has_custom_certificate: false,
  pending_update_count: pending.size,
  ...(webhook === undefined ? {} : { max_connections: webhook.maxConnections }),
  ...(webhook?.updates === undefined ? {} : { allowed_updates: webhook.updates }),
  ...(lastError === undefined ? {} : { last_error_date: 1, last_error_message: lastError })
})
