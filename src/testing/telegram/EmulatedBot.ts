import type { WebhookInfo } from "@grammyjs/types"
import type { Update } from "../../gateway/telegram/TelegramUpdate.js"

/** A call that a bot made. */
export interface BotCall {
  readonly token: string
  readonly method: string
  readonly parameters: Readonly<Record<string, unknown>>
  /** Whether it came over HTTP, or as the answer to a webhook. */
  readonly via: "call" | "response"
  /** Whether it was carried out: what a fault kept from happening was not. */
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
}

export const make = (token: string): EmulatedBot => ({
  token,
  webhook: undefined,
  nextUpdate: 1000,
  nextMessage: 1,
  pending: new Set(),
  expired: [],
  lastError: undefined
})

export const webhookInfo = ({ lastError, pending, webhook }: EmulatedBot): WebhookInfo => ({
  url: webhook?.urls[0] ?? "",
  has_custom_certificate: false,
  pending_update_count: pending.size,
  ...(webhook === undefined ? {} : { max_connections: webhook.maxConnections }),
  ...(lastError === undefined ? {} : { last_error_date: 1, last_error_message: lastError })
})
