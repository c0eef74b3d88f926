import { SqlClient } from "@effect/sql"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Transactions } from "../../src/queue/Transactions.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
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

const sumOf = (field: "enqueued" | "cancelled") =>
  Effect.map(Tally, (counting) => {
    const minutes = counting.take().filter(({ grain }) => grain === 1)
    return minutes.reduce((sum, count) => sum + count[field], 0)
  })
const enqueued = sumOf("enqueued")

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

describe("a job that is cancelled in the caller's transaction", () => {
  const ways = ["alone", "with its parent", "with its parent, at once"] as const
  for (const way of ways)
    it.scopedLive(`is counted after the commit, and not after a rollback: ${way}`, () =>
      Effect.gen(function* () {
        const queue = yield* Queue
        const admin = yield* JobAdmin
        const workflows = yield* Workflows
        const transactions = yield* Transactions
        const [plain] = yield* queue.enqueue([{ ...job, queue: "plain" }])
        const { id } = yield* workflows.start({ ...job, execution: "order" })
        const pod = (yield* makeGenerator).pod(0)
        const [run] = yield* queue.claim({ queue: "mail", pod, limit: 1 })
        if (run === undefined || plain === undefined) return expect.fail("two jobs")
        yield* workflows.startChildren(run, "ship", [job])
        const cancels: Record<typeof way, Effect.Effect<unknown, unknown>> = {
          alone: admin.cancel(plain.id),
          "with its parent": admin.cancel(id),
          "with its parent, at once": workflows.cancel("order", { now: true })
        }
        const cancel = cancels[way]
        const undone = transactions.run(Effect.zipRight(cancel, Effect.fail("on second thoughts")))
        expect(yield* Effect.exit(undone)).toEqual(Exit.fail("on second thoughts"))
        expect(yield* sumOf("cancelled")).toBe(0)
        expect(yield* transactions.run(Effect.zipRight(cancel, sumOf("cancelled")))).toBe(0)
        expect(yield* sumOf("cancelled")).toBe(way === "with its parent, at once" ? 2 : 1)
      }).pipe(Effect.provide(house))
    )
})
