import * as Http from "node:http"
import * as Https from "node:https"
import { Context, Duration, Effect, Layer, Predicate, Redacted, Schema } from "effect"
import { GatewayConfig } from "../config/GatewayConfig.js"
import * as HttpExchange from "../fetch/HttpExchange.js"

// Errors of Telegram's Bot API. They name the method and never the URL, which contains the token.

/** Telegram throttled the bot or the chat. */
export class TelegramThrottled extends Schema.TaggedError<TelegramThrottled>()("TelegramThrottled", {
  method: Schema.String,
  /** Seconds. */
  retryAfter: Schema.Number
}) {
  override get message(): string {
    return `Telegram throttled ${this.method}; retry after ${this.retryAfter} s.`
  }
}

/** The user blocked the bot, or the bot was removed from the chat. */
export class ChatClosed extends Schema.TaggedError<ChatClosed>()("ChatClosed", {
  method: Schema.String,
  description: Schema.String
}) {
  override get message(): string {
    return `Telegram refused ${this.method}: ${this.description}`
  }
}

/** Telegram does not accept the bot's token. */
export class TokenRefused extends Schema.TaggedError<TokenRefused>()("TokenRefused", { method: Schema.String }) {
  override get message(): string {
    return `Telegram refused ${this.method}: the bot's token is not valid. Check it with @BotFather.`
  }
}

/** Telegram rejected the request; a retry would fail the same way. */
export class TelegramRefused extends Schema.TaggedError<TelegramRefused>()("TelegramRefused", {
  method: Schema.String,
  status: Schema.Int,
  description: Schema.String
}) {
  override get message(): string {
    return `Telegram refused ${this.method} with ${this.status}: ${this.description}`
  }
}

/** Telegram did not respond, or responded with a server error. */
export class TelegramUnavailable extends Schema.TaggedError<TelegramUnavailable>()("TelegramUnavailable", {
  method: Schema.String,
  reason: Schema.String,
  /** Whether the request may still have taken effect. */
  maybeDone: Schema.Boolean
}) {
  override get message(): string {
    return `Telegram did not respond to ${this.method} (${this.reason}).`
  }
}

export type TelegramError = TelegramThrottled | ChatClosed | TokenRefused | TelegramRefused | TelegramUnavailable

/** Longer than a healthy Telegram API takes. */
const timeout = Duration.seconds(15)
const maxBytes = 1024 * 1024
/** A group migrates to a supergroup only once. */
const maxMigrations = 2

export interface WebhookSettings {
  readonly url: string
  readonly secret: Redacted.Redacted
  readonly maxConnections?: number | undefined
  readonly dropPending?: boolean | undefined
  /** Update types to deliver. If undefined, Telegram keeps the previous list. */
  readonly updates?: ReadonlyArray<string> | undefined
}

/** A bot's webhook as Telegram reports it. Telegram sends more fields. */
export interface WebhookInfo {
  /** Empty if there is none. */
  readonly url?: string
  readonly has_custom_certificate: boolean
  readonly pending_update_count: number
  readonly max_connections?: number
  readonly allowed_updates?: ReadonlyArray<string>
  readonly last_error_date?: number
  readonly last_error_message?: string
}

type Token = Redacted.Redacted

/** The methods of Telegram's Bot API that the gateway uses. */
export class Telegram extends Context.Tag("nightshift/gateway/Telegram")<
  Telegram,
  {
    /** Sends a message to a chat. If the chat has migrated, uses its new id. `fresh` uses a new connection. */
    readonly sendMessage: (
      token: Token,
      message: { readonly chat: number; readonly text: string; readonly fresh?: boolean }
    ) => Effect.Effect<void, TelegramError>

    readonly deleteMessage: (
      token: Token,
      message: { readonly chat: number; readonly id: number }
    ) => Effect.Effect<void, TelegramError>

    /** Registers the URL and secret for a bot's updates. */
    readonly setWebhook: (token: Token, settings: WebhookSettings) => Effect.Effect<void, TelegramError>

    readonly getWebhookInfo: (token: Token) => Effect.Effect<WebhookInfo, TelegramError>
  }
>() {
  static readonly layer: Layer.Layer<Telegram, never, GatewayConfig> = Layer.suspend(() => make)
}

/** The chat has migrated; repeat the call with the new id. */
class ChatMoved {
  readonly _tag = "ChatMoved"
  constructor(readonly to: number) {}
}

const parse = (body: Buffer): unknown => {
  try {
    return JSON.parse(body.toString("utf8"))
  } catch {
    return undefined
  }
}

const within = (value: unknown, key: string): unknown => (Predicate.hasProperty(value, key) ? value[key] : undefined)

const resultOf = (
  method: string,
  { body, status }: HttpExchange.Response
): Effect.Effect<unknown, TelegramError | ChatMoved> => {
  const answer = parse(body)
  if (within(answer, "ok") === true) return Effect.succeed(within(answer, "result"))
  const parameters = within(answer, "parameters")
  const text = within(answer, "description")
  const description = typeof text === "string" ? text.slice(0, 500) : `status ${status}`
  const movedTo = within(parameters, "migrate_to_chat_id")
  if (typeof movedTo === "number") return Effect.fail(new ChatMoved(movedTo))
  if (status === 429) {
    const retryAfter = within(parameters, "retry_after")
    return Effect.fail(new TelegramThrottled({ method, retryAfter: typeof retryAfter === "number" ? retryAfter : 1 }))
  }
  if (status === 403) return Effect.fail(new ChatClosed({ method, description }))
  if (status === 401 || status === 404) return Effect.fail(new TokenRefused({ method }))
  if (status >= 400 && status < 500) return Effect.fail(new TelegramRefused({ method, status, description }))
  return Effect.fail(new TelegramUnavailable({ method, reason: `status ${status}`, maybeDone: true }))
}

const make: Layer.Layer<Telegram, never, GatewayConfig> = Layer.scoped(
  Telegram,
  Effect.gen(function* () {
    const { telegramApi } = yield* GatewayConfig
    const secure = telegramApi.protocol === "https:"
    const agent = yield* Effect.acquireRelease(
      Effect.sync(() => (secure ? new Https.Agent({ keepAlive: true }) : new Http.Agent({ keepAlive: true }))),
      (open) => Effect.sync(() => open.destroy())
    )
    const prefix = telegramApi.href.replace(/\/+$/, "")

    const ask = (token: Token, method: string, parameters: object, fresh: boolean) =>
      HttpExchange.post({
        url: new URL(`${prefix}/bot${Redacted.value(token)}/${method}`),
        headers: { "content-type": "application/json" },
        body: JSON.stringify(parameters),
        maxBytes,
        agent: fresh ? undefined : agent
      }).pipe(
        Effect.mapError(({ code, sent }) => new TelegramUnavailable({ method, reason: code, maybeDone: sent })),
        Effect.timeoutFail({
          duration: timeout,
          onTimeout: () => new TelegramUnavailable({ method, reason: "timeout", maybeDone: true })
        }),
        Effect.flatMap((answer) => resultOf(method, answer))
      )

    /** Calls a method, and repeats the call with the new id of a chat that has migrated. */
    const call = (
      token: Token,
      method: string,
      parameters: Readonly<Record<string, unknown>>,
      { fresh = false, moves = maxMigrations }: { readonly fresh?: boolean; readonly moves?: number } = {}
    ): Effect.Effect<unknown, TelegramError> =>
      Effect.catchTag(ask(token, method, parameters, fresh), "ChatMoved", ({ to }) =>
        moves > 0
          ? call(token, method, { ...parameters, chat_id: to }, { fresh, moves: moves - 1 })
          : Effect.fail(new TelegramRefused({ method, status: 400, description: "the chat migrated repeatedly" }))
      )

    return {
      sendMessage: (token, { chat, fresh, text }) =>
        call(token, "sendMessage", { chat_id: chat, text }, { fresh: fresh ?? false }),
      deleteMessage: (token, { chat, id }) => call(token, "deleteMessage", { chat_id: chat, message_id: id }),
      setWebhook: (token, { dropPending, maxConnections, secret, updates, url }) =>
        call(token, "setWebhook", {
          url,
          secret_token: Redacted.value(secret),
          ...(maxConnections === undefined ? {} : { max_connections: maxConnections }),
          ...(updates === undefined ? {} : { allowed_updates: updates }),
          ...(dropPending === undefined ? {} : { drop_pending_updates: dropPending })
        }),
      // Trusts Telegram to return the documented type.
      getWebhookInfo: (token) => Effect.map(call(token, "getWebhookInfo", {}), (info) => info as WebhookInfo)
    }
  })
)
