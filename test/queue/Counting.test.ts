import { SqlClient } from "@effect/sql"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Transactions } from "../../src/queue/Transactions.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Tally } from "../../src/telemetry/Tally.js"
import * as TestDatabase from "../support/TestDatabase.js"

const tally = Layer.effect(Tally, Tally.make).pipe(Layer.provide(Metrics.layer))
const house = QueuePg.layer.pipe(
  Layer.provide(Listener.layerPolling),
  Layer.provideMerge(TestDatabase.layer),
  Layer.provideMerge(tally)
)

const job = { kind: "greet", version: 1, queue: "mail", payload: {}, attempts: 5 }

const enqueued = Effect.map(Tally, (counting) => {
  const minutes = counting.take().filter(({ grain }) => grain === 1)
  return minutes.reduce((sum, count) => sum + count.enqueued, 0)
})

describe("a job that is stored in the caller's transaction", () => {
  it.scopedLive("is counted after the commit, and not before", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const transactions = yield* Transactions
      const meanwhile = yield* transactions.run(Effect.zipRight(queue.enqueue([job, job]), enqueued))
      expect(meanwhile).toBe(0)
      expect(yield* enqueued).toBe(2)
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("is not counted after a rollback, whole or to a savepoint", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const transactions = yield* Transactions
      const undone = transactions.run(Effect.zipRight(queue.enqueue([job]), Effect.fail("on second thoughts")))
      expect(yield* Effect.exit(undone)).toEqual(Exit.fail("on second thoughts"))
      yield* transactions.run(
        Effect.gen(function* () {
          yield* queue.enqueue([job])
          yield* Effect.ignore(undone)
          yield* transactions.run(queue.enqueue([job, job]))
        })
      )
      expect(yield* enqueued).toBe(3)
      const { sql } = yield* Database
      expect(yield* sql`select count(*)::int as count from nightshift.job`).toEqual([{ count: 3 }])
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("is counted at once in a transaction that Nightshift does not manage", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const sql = yield* SqlClient.SqlClient
      yield* sql.withTransaction(queue.enqueue([job]))
      expect(yield* enqueued).toBe(1)
    }).pipe(Effect.provide(house))
  )
})
