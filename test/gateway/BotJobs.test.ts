import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Layer, Redacted } from "effect"
import * as Outcome from "../../src/core/Outcome.js"
import { type BotHandler, NonReplyOutcome } from "../../src/gateway/BotHandler.js"
import * as BotJobs from "../../src/gateway/BotJobs.js"
import { type Bot, Bots } from "../../src/gateway/Bots.js"
import { none } from "../../src/gateway/config/Declarations.js"
import * as DeadLetterHandler from "../../src/gateway/dead/DeadLetterHandler.js"
import { DeadLetters } from "../../src/gateway/dead/DeadLetters.js"
import {
  ChatClosed,
  Telegram,
  type TelegramError,
  TelegramRefused,
  TelegramThrottled,
  TelegramUnavailable
} from "../../src/gateway/telegram/Telegram.js"
import { textOf, type Update } from "../../src/gateway/telegram/TelegramUpdate.js"
import { jobsOfBot } from "../../src/gateway/WebhookIntake.js"
import { Queue } from "../../src/queue/Queue.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { TestShift } from "../../src/testing/TestShift.js"
import * as DeadLettersMemory from "../support/DeadLettersMemory.js"
import { waiting } from "../support/States.js"
import { message } from "./Updates.js"

interface Said {
  readonly chat: number
  readonly text: string
}

/** Behaviour of a bot's handler and of Telegram in a story. */
interface World {
  readonly handle: BotHandler["handle"]
  readonly telegram?: (said: Said, count: number) => TelegramError | undefined
}

const declaration = {
  slug: "helper",
  handler: { _tag: "Echo" },
  requireAuth: false,
  async: true,
  chatOrder: "serial",
  onError: "apologize",
  token: Redacted.make("t"),
  secrets: []
} as const

const story = (world: World, declared = true) => {
  const said: Array<Said> = []
  const bot: Bot = { ...declaration, handle: world.handle, known: [], takes: () => true }
  const telegram = Layer.succeed(
    Telegram,
    Telegram.of({
      sendMessage: (_, { chat, text }) =>
        Effect.suspend(() => {
          said.push({ chat, text })
          const error = world.telegram?.({ chat, text }, said.length)
          return error === undefined ? Effect.void : Effect.fail(error)
        }),
      deleteMessage: () => Effect.void,
      setWebhook: () => Effect.void,
      getWebhookInfo: () => Effect.dieMessage("nobody asked")
    })
  )
  const bots = Layer.succeed(Bots, {
    bot: (slug) => (declared && slug === "helper" ? bot : undefined),
    source: () => undefined,
    all: () => [bot],
    sources: () => [],
    reload: Effect.succeed(none)
  })
  const handlers = [...BotJobs.handlers([declaration], []), DeadLetterHandler.handler]
  const layer = TestShift.layer({ handlers, queues: ["bot-helper"] }).pipe(
    Layer.provideMerge(Layer.mergeAll(telegram, bots, DeadLettersMemory.layer, Metrics.layer))
  )
  return { said, layer }
}

const echo: BotHandler["handle"] = ({ update }) => Effect.succeed({ text: textOf(update) ?? "" })
const failing: BotHandler["handle"] = () => Effect.fail(new Error("no luck"))

const enqueue = (update: object) =>
  Effect.flatMap(Queue, (queue) =>
    Effect.map(queue.enqueue([jobsOfBot("helper")(update as Update)]), ([answer]) => {
      if (answer === undefined) throw new Error("not stored")
      return answer.id
    })
  )

const refused = new TelegramRefused({ method: "sendMessage", status: 400, description: "chat not found" })
const away = (maybeDone: boolean) => new TelegramUnavailable({ method: "sendMessage", reason: "x", maybeDone })
const sorry = expect.stringMatching(/^Sorry/)

describe("an async bot's job", () => {
  it.effect("runs the bot's handler and sends its reply to the originating chat", () => {
    const { layer, said } = story({ handle: echo })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const id = yield* enqueue(message(1, "hello", -9))
      yield* shift.settle
      expect(yield* shift.job(id)).toMatchObject({ state: "done", kind: "telegram.helper", key: "-9" })
      expect(said).toEqual([{ chat: -9, text: "hello" }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is retried after 30 s, two minutes, ten minutes and an hour, then notifies the user once", () => {
    const { layer, said } = story({ handle: failing })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const id = yield* enqueue(message(1, "hello"))
      const attempts: Array<number> = []
      for (const wait of ["0 seconds", "30 seconds", "2 minutes", "10 minutes", "1 hour"] as const) {
        yield* shift.advance(wait)
        attempts.push((yield* shift.job(id)).attempt)
      }
      expect(attempts).toEqual([1, 2, 3, 4, 5])
      expect(yield* shift.job(id)).toMatchObject({ state: "dead", reason: "exhausted" })
      yield* shift.drain
      yield* shift.advance("1 hour")
      expect(said).toEqual([{ chat: 7, text: sorry }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits as long as Telegram asks, without using an attempt", () => {
    const { layer, said } = story({
      handle: echo,
      telegram: (_, count) => (count < 3 ? new TelegramThrottled({ method: "sendMessage", retryAfter: 40 }) : undefined)
    })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const id = yield* enqueue(message(1, "hello"))
      yield* shift.settle
      expect(yield* shift.job(id)).toMatchObject({ state: waiting, attempt: 0 })
      yield* shift.advance("39 seconds")
      expect(said).toHaveLength(1)
      yield* shift.drain
      expect(said).toHaveLength(3)
      expect(yield* shift.job(id)).toMatchObject({ state: "done", attempt: 1 })
    }).pipe(Effect.provide(layer))
  })

  it.effect("pauses with all other jobs of the bot once Telegram throttles several chats", () => {
    const { layer, said } = story({
      handle: echo,
      telegram: (_, count) =>
        count <= 5 ? new TelegramThrottled({ method: "sendMessage", retryAfter: 300 }) : undefined
    })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      for (const chat of [1, 2, 3, 4]) yield* enqueue(message(chat, "x", chat))
      yield* shift.settle
      expect(said).toHaveLength(4)
      // The fifth throttled chat pauses the whole bot; a sixth is not tried.
      yield* enqueue(message(5, "x", 5))
      yield* shift.settle
      const sixth = yield* enqueue(message(6, "x", 6))
      yield* shift.advance("299 seconds")
      expect(said).toHaveLength(5)
      expect(yield* shift.job(sixth)).toMatchObject({ state: waiting, attempt: 0 })
      yield* shift.drain
      expect(yield* shift.job(sixth)).toMatchObject({ state: "done" })
      expect(said).toHaveLength(11)
    }).pipe(Effect.provide(layer))
  })

  it.effect("is retried while Telegram is unavailable, and dies when Telegram rejects the reply for good", () => {
    const { layer } = story({
      handle: echo,
      telegram: ({ chat }, count) => {
        if (chat === 1) return count === 1 ? away(true) : undefined
        return chat === 2 ? new ChatClosed({ method: "sendMessage", description: "blocked by the user" }) : refused
      }
    })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const passing = yield* enqueue(message(1, "x", 1))
      yield* shift.drain
      expect(yield* shift.job(passing)).toMatchObject({ state: "done", attempt: 2 })
      const blocked = yield* enqueue(message(2, "x", 2))
      const gone = yield* enqueue(message(3, "x", 3))
      yield* shift.drain
      expect(yield* shift.job(blocked)).toMatchObject({ state: "dead", reason: "rejected", attempt: 1 })
      expect(yield* shift.job(gone)).toMatchObject({ lastError: expect.stringContaining("chat not found") })
    }).pipe(Effect.provide(layer))
  })

  it.effect("ends with its handler's outcome when that is not an answer", () => {
    const { layer, said } = story({
      handle: ({ job }) =>
        new NonReplyOutcome({
          outcome: job?.attempt === 1 ? Outcome.retry("later", Duration.minutes(9)) : Outcome.dead("never")
        })
    })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const id = yield* enqueue(message(1, "x"))
      yield* shift.advance("8 minutes")
      expect(yield* shift.job(id)).toMatchObject({ attempt: 1, lastError: "later" })
      yield* shift.drain
      expect(yield* shift.job(id)).toMatchObject({ state: "dead", reason: "rejected", lastError: "never" })
      expect(said).toEqual([{ chat: 7, text: sorry }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits for a bot that the file does not currently declare", () => {
    const { layer } = story({ handle: echo }, false)
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const id = yield* enqueue(message(1, "x"))
      yield* shift.advance("10 minutes")
      expect(yield* shift.job(id)).toMatchObject({ state: waiting, attempt: 0 })
    }).pipe(Effect.provide(layer))
  })

  it.effect("notifies no one when it has neither chat nor user", () => {
    const { layer, said } = story({ handle: failing })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      yield* enqueue({ update_id: 5, poll: { id: "1" } })
      yield* shift.drain
      expect((yield* shift.jobs).map(({ state }) => state)).toEqual(["dead"])
      expect(said).toEqual([])
    }).pipe(Effect.provide(layer))
  })
})

describe("the notification of a dead job", () => {
  const counts = Effect.flatMap(Metrics, (metrics) =>
    Effect.map(metrics.render, (text) =>
      [...text.matchAll(/dead_letters_total\{.*outcome="(\w+)"\} (\d+)/g)].map(([, name, n]) => `${name} ${n}`)
    )
  )
  const letters = Effect.map(
    Effect.flatMap(TestShift, (shift) => shift.jobs),
    (jobs) => jobs.filter(({ kind }) => kind === "telegram.dead_letter")
  )

  it.effect("is not repeated when the outcome of sending is unknown, which is counted and shown", () => {
    const { layer, said } = story({ handle: failing, telegram: () => away(true) })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      yield* enqueue(message(1, "x"))
      yield* shift.drain
      yield* shift.advance("2 hours")
      expect(said).toHaveLength(1)
      expect(yield* counts).toEqual(["unknown 1"])
      expect(yield* letters).toMatchObject([{ state: "done", result: { outcome: "unknown" } }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is repeated when it certainly did not arrive", () => {
    const { layer, said } = story({
      handle: failing,
      telegram: (_, count) =>
        count === 1 ? away(false) : count === 2 ? new TelegramThrottled({ method: "x", retryAfter: 5 }) : undefined
    })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      yield* enqueue(message(1, "x"))
      yield* shift.drain
      expect(said).toHaveLength(3)
      expect(yield* counts).toEqual(["sent 1"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is dropped when Telegram refuses it for good", () => {
    const { layer, said } = story({ handle: failing, telegram: () => refused })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      yield* enqueue(message(1, "x"))
      yield* shift.drain
      expect(said).toHaveLength(1)
      expect(yield* counts).toEqual(["refused 1"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is not repeated when the sending pod died before recording it", () => {
    const { layer, said } = story({ handle: failing })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const id = yield* enqueue(message(1, "x"))
      // Another pod has recorded its intent to send and died.
      yield* Effect.flatMap(DeadLetters, (dead) => dead.intend({ job: id, bot: "helper", chat: 7 }))
      yield* shift.drain
      expect(said).toEqual([])
      expect(yield* counts).toEqual(["unknown 1"])
    }).pipe(Effect.provide(layer))
  })
})
