import { describe, expect, it } from "@effect/vitest"
import { Cause, ConfigProvider, Effect, Exit, Fiber, Layer, Redacted, Schedule } from "effect"
import { GatewayConfig } from "../../src/gateway/config/GatewayConfig.js"
import { Telegram } from "../../src/gateway/telegram/Telegram.js"
import { EmulatedFault, TelegramEmulator } from "../../src/testing/effect.js"

const secretToken = "4242:the-token-that-nobody-may-see"
const token = Redacted.make(secretToken)

const speaking = (url: string) =>
  Telegram.layer.pipe(
    Layer.provide(GatewayConfig.layer),
    Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["TELEGRAM_API_URL", url]]))))
  )

const layer = Layer.unwrapEffect(Effect.map(TelegramEmulator, ({ url }) => speaking(url))).pipe(
  Layer.provideMerge(TelegramEmulator.layer({ tokens: [secretToken] })),
  Layer.orDie
)

const say = Effect.flatMap(Telegram, (telegram) => telegram.sendMessage(token, { chat: 5, text: "hi" }))

/** Returns the error of a call after checking that no printable part of it contains the token. */
const failing = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.exit(effect), (exit) => {
    if (Exit.isSuccess(exit)) throw new Error("it did not fail")
    const error = Cause.squash(exit.cause)
    const printed = [Cause.pretty(exit.cause), String(error), JSON.stringify(error), JSON.stringify(exit)].join()
    expect(printed).not.toContain("nobody-may-see")
    return error
  })

describe("the Bot API", () => {
  it.scopedLive("is called with the token in the url and the parameters as JSON", () =>
    Effect.gen(function* () {
      const telegram = yield* Telegram
      const emulator = yield* TelegramEmulator
      yield* say
      yield* telegram.deleteMessage(token, { chat: 5, id: 9 })
      yield* telegram.setWebhook(token, { url: "https://x.example/", secret: Redacted.make("s"), maxConnections: 9 })
      expect(yield* telegram.getWebhookInfo(token)).toMatchObject({ url: "https://x.example/", max_connections: 9 })
      expect((yield* emulator.calls).map(({ method, parameters }) => [method, parameters])).toEqual([
        ["sendMessage", { chat_id: 5, text: "hi" }],
        ["deleteMessage", { chat_id: 5, message_id: 9 }],
        ["setWebhook", { url: "https://x.example/", secret_token: "s", max_connections: 9 }],
        ["getWebhookInfo", {}]
      ])
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("reports each failure with its own error, never with the token", () =>
    Effect.gen(function* () {
      const { clearFaults, fail } = yield* TelegramEmulator
      const meeting = (fault: EmulatedFault) =>
        Effect.zipRight(fail(fault), failing(say)).pipe(Effect.zipLeft(clearFaults))
      const { Blocked, Broken, Drop, Refused, Throttled } = EmulatedFault
      expect(yield* meeting(Throttled({ retryAfter: 17 }))).toMatchObject({ _tag: "TelegramThrottled", retryAfter: 17 })
      expect(yield* meeting(Blocked())).toMatchObject({ _tag: "ChatClosed" })
      expect(yield* meeting(Broken({}))).toMatchObject({ _tag: "TelegramUnavailable", maybeDone: true })
      expect(yield* meeting(Broken({ status: 502 }))).toMatchObject({ _tag: "TelegramUnavailable", maybeDone: true })
      expect(yield* meeting(Drop())).toMatchObject({ _tag: "TelegramUnavailable", maybeDone: true })
      expect(yield* meeting(Refused({ status: 400, description: "Bad Request: chat not found" }))).toMatchObject({
        _tag: "TelegramRefused",
        message: "Telegram refused sendMessage with 400: Bad Request: chat not found"
      })
      const stranger = Effect.flatMap(Telegram, (telegram) =>
        telegram.getWebhookInfo(Redacted.make("1:nobody-may-see"))
      )
      expect(yield* failing(stranger)).toMatchObject({ _tag: "TokenRefused" })
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("reports that nothing was sent when the connection is refused", () =>
    Effect.gen(function* () {
      const error = yield* failing(Effect.provide(say, speaking("http://127.0.0.1:1")))
      expect(error).toMatchObject({ _tag: "TelegramUnavailable", reason: "ECONNREFUSED", maybeDone: false })
    })
  )

  it.scopedLive("retries with the new id of a chat that has migrated", () =>
    Effect.gen(function* () {
      const emulator = yield* TelegramEmulator
      yield* emulator.fail(EmulatedFault.Migrated({ to: -100 }), { when: ({ parameters }) => parameters.chat_id === 5 })
      yield* say
      expect((yield* emulator.calls).map(({ done, parameters }) => [parameters.chat_id, done])).toEqual([
        [5, false],
        [-100, true]
      ])
      yield* emulator.fail(EmulatedFault.Migrated({ to: 6 }))
      expect(yield* failing(say)).toMatchObject({ _tag: "TelegramRefused" })
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("is aborted when the caller is interrupted", () =>
    Effect.gen(function* () {
      const emulator = yield* TelegramEmulator
      yield* emulator.fail(EmulatedFault.Hang())
      const fiber = yield* Effect.fork(say)
      yield* Effect.repeat(emulator.calls, {
        until: (calls) => calls.length > 0,
        schedule: Schedule.spaced("10 millis")
      })
      expect(Exit.isInterrupted(yield* Fiber.interrupt(fiber))).toBe(true)
    }).pipe(Effect.provide(layer))
  )
})
