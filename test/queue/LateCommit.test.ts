import { expect, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(
  Layer.provide(Listener.layer),
  Layer.provideMerge(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

layer(house, { excludeTestServices: true })("a job that another process commits late", (it) => {
  it.scoped("is claimed within a second, even if every claim is full", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      const ids = yield* makeGenerator
      const pod = ids.pod(0)
      const begun = yield* Clock.currentTimeMillis
      const job = { kind: "test", version: 1, queue: "late", payload: {}, attempts: 5 }
      yield* SteppableClock.advance("5 seconds")
      yield* queue.enqueue(Array.from({ length: 20 }, (_, n) => ({ ...job, runAt: begun + 2_000 + n })))
      const claimOne = queue.claim({ queue: "late", pod, limit: 1 })
      for (let claim = 0; claim < 5; claim += 1) expect(yield* claimOne).toHaveLength(1)
      // Has a timestamp of three seconds ago, and becomes visible only now.
      const late = ids.job(begun)
      yield* sql`insert into nightshift.job (id, queue, kind, payload, max_attempts, run_at, created_at, updated_at)
        select ${late}, 'late', 'test', '{}', 5, at, at, at from to_timestamp(${begun + 1_000}::float8 / 1000) as at`
      expect((yield* claimOne)[0]?.id).not.toBe(late)
      yield* SteppableClock.advance("1 second")
      expect((yield* claimOne)[0]?.id).toBe(late)
    })
  )
})
