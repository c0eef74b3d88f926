import { describe, expect, it } from "@effect/vitest"
import { Clock, Context, Effect, Redacted } from "effect"
import * as BotJobs from "../../src/gateway/BotJobs.js"
import { type Bot, Bots } from "../../src/gateway/Bots.js"
import { none } from "../../src/gateway/config/Declarations.js"
import { Telegram, TelegramThrottled } from "../../src/gateway/telegram/Telegram.js"
import { textOf, type Update } from "../../src/gateway/telegram/TelegramUpdate.js"
import { jobsOfBot } from "../../src/gateway/WebhookIntake.js"
import { Queue } from "../../src/queue/Queue.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as StepClock from "../support/StepClock.js"
import * as TestCluster from "../worker/TestCluster.js"
import { message } from "./Updates.js"

interface Said {
  readonly chat: number
  readonly number: number
  readonly arrived: boolean
}

const bot: Bot = {
  slug: "helper",
  handler: { _tag: "Echo" },
  requireAuth: false,
  async: true,
  chatOrder: "serial",
  onError: "apologize",
  token: Redacted.make("t"),
  secrets: [],
  known: [],
  takes: () => true,
  handle: ({ update }) => Effect.succeed({ text: textOf(update) ?? "" })
}

/** A Telegram that takes 20 ms per message, and throttles some for a second. */
const makeTelegram = (isRefused: (number: number, before: ReadonlyArray<Said>) => boolean) => {
  const said: Array<Said> = []
  const sendMessage: (typeof Telegram.Service)["sendMessage"] = (_, { chat, text }) =>
    Effect.flatMap(Effect.sleep("20 millis"), () => {
      const arrived = !isRefused(Number(text), said)
      said.push({ chat, number: Number(text), arrived })
      return arrived ? Effect.void : new TelegramThrottled({ method: "sendMessage", retryAfter: 1 })
    })
  const context = Context.empty().pipe(
    Context.add(Telegram, {
      sendMessage,
      deleteMessage: () => Effect.void,
      setWebhook: () => Effect.void,
      getWebhookInfo: () => Effect.dieMessage("not asked")
    }),
    Context.add(Bots, {
      bot: () => bot,
      source: () => undefined,
      all: () => [bot],
      sources: () => [],
      reload: Effect.succeed(none)
    })
  )
  return { said, context }
}

/** Runs updates of many chats; returns the virtual milliseconds until the last was answered. */
const answerAll = (updates: number, chats: number, { context, said }: ReturnType<typeof makeTelegram>) =>
  Effect.gen(function* () {
    const handlers = BotJobs.handlers([bot], []).map((handler) => ({
      ...handler,
      run: (payload: never, job: Parameters<typeof handler.run>[1]) =>
        Effect.provide(handler.run(payload, job), context)
    }))
    yield* TestCluster.hire({ queues: ["bot-helper"], handlers: handlers as never })
    yield* Effect.flatMap(Queues, (queues) =>
      queues.change("bot-helper", { perKey: { concurrency: 1, order: "serial" } })
    )
    const queue = yield* Queue
    const from = yield* Clock.currentTimeMillis
    yield* queue.enqueue(
      Array.from({ length: updates }, (_, n) =>
        jobsOfBot("helper")(message(n, String(n), 1 + (n % chats)) as unknown as Update)
      )
    )
    const answered = () => said.filter(({ arrived }) => arrived).length
    while (answered() < updates && (yield* Clock.currentTimeMillis) < from + 600_000) {
      yield* StepClock.advance("100 millis")
    }
    return (yield* Clock.currentTimeMillis) - from
  })

/** Delivered messages per chat, in order. */
const arrivals = (said: ReadonlyArray<Said>, chats: number) =>
  Array.from({ length: chats }, (_, index) =>
    said.filter(({ arrived, chat }) => arrived && chat === index + 1).map(({ number }) => number)
  )

describe("messages that Telegram throttles for a second", () => {
  it.scopedLive("delay only their own chat, for no longer than Telegram said", () =>
    Effect.gen(function* () {
      const updates = 600
      const chats = 60
      // One message in a hundred, the first time: about six chats wait at any moment.
      const telegram = makeTelegram(
        (number, before) => number % 100 === 7 && !before.some((each) => each.number === number)
      )
      const millis = yield* answerAll(updates, chats, telegram)
      expect(telegram.said).toHaveLength(updates + updates / 100)
      for (const numbers of arrivals(telegram.said, chats)) {
        expect(numbers).toHaveLength(updates / chats)
        expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
      }
      // Ten slots of 20 ms each take 1.2 s for all of them, and the last refused chat a second more.
      expect(millis).toBeLessThan(3_000)
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("delay the whole bot when every chat is throttled, for no longer than Telegram said", () =>
    Effect.gen(function* () {
      const updates = 300
      const chats = 60
      // A limit of the whole bot: from the hundredth message on, Telegram refuses everything until it has refused
      // twenty times.
      const telegram = makeTelegram((_, before) => {
        const refused = before.filter(({ arrived }) => !arrived).length
        return before.length >= 100 && refused < 20
      })
      const millis = yield* answerAll(updates, chats, telegram)
      expect(telegram.said).toHaveLength(updates + 20)
      for (const numbers of arrivals(telegram.said, chats)) {
        expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
      }
      // At most ten messages are in flight when the bot pauses: twenty refusals take two or three pauses.
      expect(millis).toBeLessThan(5_000)
    }).pipe(Effect.provide(TestCluster.layer))
  )
})
