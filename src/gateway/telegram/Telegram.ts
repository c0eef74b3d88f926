import * as Http from "node:http"
import * as Https from "node:https"
import type { WebhookInfo } from "@grammyjs/types"
import { Context, Duration, Effect, Layer, Predicate, Redacted } from "effect"
import { GatewayConfig } from "../config/GatewayConfig.js"
import * as HttpExchange from "../fetch/HttpExchange.js"
import {
  ChatClosed,
  type TelegramError,
  TelegramRefused,
  TelegramThrottled,
  TelegramUnavailable,
  TokenRefused
} from "./TelegramErrors.js"

/** Longer than Telegram ever takes when it is well. */
const patience = Duration.seconds(15)
const mostBytes = 1024 * 1024
/** A group becomes a supergroup once. */
const mostMigrations = 2

export interface WebhookSettings {
  readonly url: string
  readonly secret: Redacted.Redacted
  readonly maxConnections?: number | undefined
  readonly dropPending?: boolean | undefined
  /** The types of updates to deliver; Telegram keeps to the last list it was given where absent. */
  readonly updates?: ReadonlyArray<string> | undefined
}

type Token = Redacted.Redacted

/** The part of Telegram's Bot API that the gateway speaks. */
export class Telegram extends Context.Tag("nightshift/gateway/Telegram")<
  Telegram,
  {
    /** Says something in a chat, also when it has moved to another id. `fresh`: over a connection of its own. */
    readonly sendMessage: (
      token: Token,
      message: { readonly chat: number; readonly text: string; readonly fresh?: boolean }
    ) => Effect.Effect<void, TelegramError>

    readonly deleteMessage: (
      token: Token,
      message: { readonly chat: number; readonly id: number }
    ) => Effect.Effect<void, TelegramError>

    /** Tells Telegram where to deliver a bot's updates, and the secret to send along. */
    readonly setWebhook: (token: Token, settings: WebhookSettings) => Effect.Effect<void, TelegramError>

    readonly getWebhookInfo: (token: Token) => Effect.Effect<WebhookInfo, TelegramError>
  }
>() {
  static readonly layer: Layer.Layer<Telegram, never, GatewayConfig> = Layer.suspend(() => make)
}

/** A chat that has moved: what was to be said there is to be said at the new id. */
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

const judge = (
  method: string,
  { body, status }: HttpExchange.Answer
): Effect.Effect<unknown, TelegramError | ChatMoved> => {
  const answer = parse(body)
  if (within(answer, "ok") === true) return Effect.succeed(within(answer, "result"))
  const parameters = within(answer, "parameters")
  const said = within(answer, "description")
  const description = typeof said === "string" ? said.slice(0, 500) : `status ${status}`
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
        mostBytes,
        agent: fresh ? undefined : agent
      }).pipe(
        Effect.mapError(({ code, sent }) => new TelegramUnavailable({ method, reason: code, maybeDone: sent })),
        Effect.timeoutFail({
          duration: patience,
          onTimeout: () => new TelegramUnavailable({ method, reason: "timeout", maybeDone: true })
        }),
        Effect.flatMap((answer) => judge(method, answer))
      )

    /** A method whose parameters may name a chat: follows it where it has moved. */
    const call = (
      token: Token,
      method: string,
      parameters: Readonly<Record<string, unknown>>,
      { fresh = false, moves = mostMigrations }: { readonly fresh?: boolean; readonly moves?: number } = {}
    ): Effect.Effect<unknown, TelegramError> =>
      Effect.catchTag(ask(token, method, parameters, fresh), "ChatMoved", ({ to }) =>
        moves > 0
          ? call(token, method, { ...parameters, chat_id: to }, { fresh, moves: moves - 1 })
          : Effect.fail(new TelegramRefused({ method, status: 400, description: "the chat keeps moving" }))
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
      // What Telegram answers is of the form it documents.
      getWebhookInfo: (token) => Effect.map(call(token, "getWebhookInfo", {}), (info) => info as WebhookInfo)
    }
  })
)
