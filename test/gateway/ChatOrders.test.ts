import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import * as Listener from "../../src/database/Listener.js"
import * as ChatOrders from "../../src/gateway/ChatOrders.js"
import type { BotDeclaration } from "../../src/gateway/config/Declarations.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as TestDatabase from "../support/TestDatabase.js"

const bot = (slug: string, chatOrder: BotDeclaration["chatOrder"], isAsync = true): BotDeclaration => ({
  slug,
  chatOrder,
  handler: { _tag: "Echo" },
  requireAuth: false,
  async: isAsync,
  onError: "apologize",
  token: Redacted.make("t"),
  secrets: []
})

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provide(TestDatabase.layer))

/** Starts a process with these bots. */
const start = (...bots: ReadonlyArray<BotDeclaration>) => Layer.build(ChatOrders.layer(bots))

const perKey = (queue: string) =>
  Effect.flatMap(Queues, (queues) => Effect.map(queues.get(queue), (settings) => settings.perKey))

describe("the order of a bot's chats", () => {
  it.scopedLive("is set on the bot's queue, and follows the file", () =>
    Effect.gen(function* () {
      yield* start(bot("a", "serial"), bot("b", "strict"), bot("c", "none"), bot("d", "serial", false))
      expect(yield* perKey("bot-a")).toEqual({ concurrency: 1, order: "serial" })
      expect(yield* perKey("bot-b")).toEqual({ concurrency: 1, order: "strict" })
      expect(yield* perKey("bot-c")).toBeUndefined()
      expect(yield* Effect.flip(perKey("bot-d"))).toMatchObject({ _tag: "QueueNotFound" })
      yield* start(bot("a", "none"), bot("c", "strict"))
      expect(yield* perKey("bot-a")).toBeUndefined()
      expect(yield* perKey("bot-c")).toEqual({ concurrency: 1, order: "strict" })
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("stays as an operator changed it, whatever a file says", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      yield* start(bot("a", "strict"))
      yield* queues.change("bot-a", { perKey: { concurrency: 3, order: "none" } })
      yield* start(bot("a", "strict"))
      expect(yield* perKey("bot-a")).toEqual({ concurrency: 3, order: "none" })
      // A pause before the first bot is not a choice of the order.
      yield* queues.declare(["bot-b"])
      yield* queues.change("bot-b", { paused: true })
      yield* start(bot("b", "strict"))
      expect(yield* perKey("bot-b")).toEqual({ concurrency: 1, order: "strict" })
      expect(yield* queues.get("bot-b")).toMatchObject({ paused: true })
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("is set once by pods that start concurrently", () =>
    Effect.gen(function* () {
      yield* Effect.all(
        Array.from({ length: 5 }, () => start(bot("a", "strict"))),
        { concurrency: "unbounded" }
      )
      expect(yield* perKey("bot-a")).toEqual({ concurrency: 1, order: "strict" })
    }).pipe(Effect.provide(house))
  )
})
