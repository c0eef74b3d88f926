import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Deferred, Effect, Fiber, Layer, Ref, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as TestDatabase from "../support/TestDatabase.js"

const pooled = (size: number) =>
  Transactions.layer.pipe(
    Layer.provideMerge(TestDatabase.layer),
    Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["DATABASE_POOL", String(size)]]))))
  )

describe("transactions of handlers", () => {
  it.scopedLive.each([2, 6])("leave connections for everything else, of %i", (size) =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const { runHandler } = yield* Transactions
      const gate = yield* Deferred.make<void>()
      const begun = yield* Ref.make(0)
      const act = Effect.zipRight(
        sql`select 1`,
        Ref.update(begun, (count) => count + 1)
      )
      // A nested transaction uses the outer one's connection.
      const handler = runHandler(Effect.zipRight(runHandler(act), Deferred.await(gate)))
      const handlers = yield* Effect.fork(Effect.replicateEffect(handler, 20, { concurrency: "unbounded" }))
      yield* Effect.repeat(Ref.get(begun), { until: (count) => count > 0, schedule: Schedule.spaced("10 millis") })
      // Like a heartbeat: it would wait forever if handlers held every connection.
      expect(yield* sql`select 2 as answer`).toEqual([{ answer: 2 }])
      yield* Deferred.succeed(gate, undefined)
      expect(yield* Fiber.join(handlers)).toHaveLength(20)
    }).pipe(Effect.provide(pooled(size)))
  )
})
