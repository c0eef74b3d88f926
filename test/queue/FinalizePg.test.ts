import { expect, layer } from "@effect/vitest"
import { type Context, Effect, Layer } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layer))

layer(house, { excludeTestServices: true })("a finalize in the caller's transaction", (it) => {
  it.scoped("fails with the first error, and is not retried in a failed transaction", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      const queue = yield* Queue
      yield* queue.enqueue([{ kind: "test", version: 1, queue: "conflict", payload: {}, attempts: 5 }])
      const [run] = yield* queue.claim({ queue: "conflict", pod: (yield* makeGenerator).pod(0), limit: 1 })
      if (run === undefined) return yield* Effect.dieMessage("one was stored")
      const elsewhere = yield* Effect.context<never>()
      const written = Effect.gen(function* () {
        yield* sql`set transaction isolation level repeatable read`
        yield* sql`select 1 from nightshift.job`
        // Another connection updates a row that this transaction's snapshot has already read.
        const other = queue.progress(run, "1").pipe(Effect.mapInputContext((_: Context.Context<never>) => elsewhere))
        expect(yield* other).toBe(true)
        return yield* queue.finalize([{ ...run, end: End.Done({ result: undefined }) }])
      })
      expect(yield* Effect.flip(transaction(written))).toMatchObject({ sqlState: "40001" })
    })
  )
})
