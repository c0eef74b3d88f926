import { expect, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layer))

/** Blocks every heartbeat at its first row while another session holds the advisory lock 42. */
const stopHeartbeats = Effect.gen(function* () {
  const { sql } = yield* Database
  yield* sql`create function stop_here() returns trigger language plpgsql
    as $$ begin perform pg_advisory_xact_lock(42); return new; end $$`
  yield* sql`create trigger stop_heartbeats before update on nightshift.job for each row
    when (old.heartbeat_at is not null and new.heartbeat_at is not null) execute function stop_here()`
})

const somebodyWaits = Effect.gen(function* () {
  const { sql } = yield* Database
  return (yield* sql`select from pg_locks where locktype = 'advisory' and objid = 42 and not granted`).length > 0
}).pipe(Effect.repeat({ until: (waits) => waits }))

layer(house, { excludeTestServices: true })("a heartbeat on PostgreSQL", (it) => {
  it.scoped("continues with the other jobs when one ends concurrently", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      const queue = yield* Queue
      const job = { kind: "test", version: 1, queue: "race", payload: {}, attempts: 5 }
      yield* queue.enqueue([job, job])
      const held = yield* queue.claim({ queue: "race", pod: (yield* makeGenerator).pod(0), limit: 2 })
      yield* stopHeartbeats

      const [locked, release] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const holding = sql`select pg_advisory_xact_lock(42)`.pipe(
        Effect.zipRight(Deferred.succeed(locked, undefined)),
        Effect.zipRight(Deferred.await(release))
      )
      const holder = yield* Effect.fork(transaction(holding))
      yield* Deferred.await(locked)
      const beating = yield* Effect.fork(queue.heartbeat(held))
      yield* somebodyWaits
      // One row is being written; the other has been read and is not locked yet.
      const free = yield* sql<{ id: string }>`
        select id from nightshift.job where id in ${sql.in(held.map(({ id }) => id))} for update skip locked`
      const ended = held.filter(({ id }) => id === free[0]?.id)
      yield* queue.finalize(ended.map((run) => ({ ...run, end: End.Done({ result: undefined }) })))
      yield* Deferred.succeed(release, undefined)
      yield* Fiber.join(holder)
      expect(ended).toHaveLength(1)
      expect(yield* Fiber.join(beating)).toMatchObject({ cancelRequested: [] })
      const search = yield* JobSearch
      for (const run of held) {
        const isEnded = ended.includes(run)
        expect(yield* search.get(run.id)).toMatchObject({ state: isEnded ? "done" : "running", crashCount: 0 })
      }
      expect((yield* queue.heartbeat(held)).lost).toMatchObject(ended.map(({ id, lease }) => ({ id, lease })))
    })
  )
})
