import type { WebhookInfo } from "@grammyjs/types"
import type { Update } from "../../gateway/telegram/TelegramUpdate.js"
import { chanceOf } from "./DeliveryRules.js"

/** A call that a bot made. */
export interface BotCall {
  readonly token: string
  readonly method: string
  readonly parameters: Readonly<Record<string, unknown>>
  /** Whether it came over HTTP, or as the answer to a webhook. */
  readonly via: "call" | "response"
  /** Whether it was carried out: what a fault kept from event was not. */
  readonly done: boolean
}

/** One try to deliver an update. */
export interface DeliveryTry {
  readonly token: string
  readonly update: number
  readonly url: string
  /** The status of the answer; absent where none came, or where it was lost on purpose. */
  readonly status: number | undefined
  /** What the answer said beyond its status. */
  readonly body: string
}

/** Where updates go. Several urls are several pods behind one address. */
export interface EmulatedWebhook {
  readonly urls: ReadonlyArray<string>
  readonly secret: string | undefined
  readonly maxConnections: number
  /** The types of updates that are delivered; all where absent. */
  readonly updates?: ReadonlyArray<string> | undefined
}

/** What the emulator knows of a bot. */
export interface EmulatedBot {
  readonly token: string
  webhook: EmulatedWebhook | undefined
  nextUpdate: number
  nextMessage: number
  /** Updates that are not delivered yet. */
  readonly pending: Set<Update>
  readonly expired: Array<number>
  lastError: string | undefined
  /** What `setMyCommands` was given last. */
  commands: ReadonlyArray<unknown>
  /** Calls of `getUpdates` that wait for an update. */
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

/** The bot as `getMe` shows it: its id is what its token begins with. */
export const profileOf = ({ token }: EmulatedBot) => {
  const id = Number(/^\d+/.exec(token)?.[0] ?? 1 + Math.floor(chanceOf(0, token) * 2 ** 31))
  return { id, is_bot: true, first_name: `Emulated ${id}`, username: `emulated_${id}_bot` }
}

export const webhookInfo = ({ lastError, pending, webhook }: EmulatedBot): WebhookInfo => ({
  url: webhook?.urls[0] ?? "",
  has_custom_certificate: false,
  pending_update_count: pending.size,
  ...(webhook === undefined ? {} : { max_connections: webhook.maxConnections }),
  ...(webhook?.updates === undefined
    ? {}
    : { allowed_updates: webhook.updates as WebhookInfo["allowed_updates"] & {} }),
  ...(lastError === undefined ? {} : { last_error_date: 1, last_error_message: lastError })
})
