import { expect, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(
  Layer.provide(Listener.layer),
  Layer.provideMerge(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

const jobs = (queue: string, count: number): ReadonlyArray<NewJob> =>
  Array.from({ length: count }, () => ({ kind: "test", version: 1, queue, payload: {}, attempts: 5 }))

const done = End.Done({ result: undefined })

/** Stores jobs in a separate queue and claims them together. */
const taken = (name: string, count: number) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    yield* queue.enqueue(jobs(name, count))
    const pod = (yield* makeGenerator).pod(0)
    return yield* queue.claim({ queue: name, pod, limit: count })
  })

const rowsOf = (lease: string | undefined) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    return yield* sql<{ jobs: ReadonlyArray<string> }>`select jobs from nightshift.lease where id = ${lease}`
  })

layer(house, { excludeTestServices: true })("leases on PostgreSQL", (it) => {
  it.scoped("record a claim, and are deleted with the end of its last job", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const [first, second] = yield* taken("two", 2)
      if (!first || !second) return yield* Effect.dieMessage("two were stored")
      expect((yield* rowsOf(first.lease))[0]?.jobs.toSorted()).toEqual([first.id, second.id].toSorted())
      yield* queue.finalize([{ ...first, end: done }])
      const [other] = yield* taken("other", 1)
      if (!other) return yield* Effect.dieMessage("one was stored")
      // The next end also deletes leases that are already over.
      yield* queue.finalize([{ ...other, end: done }])
      expect(yield* rowsOf(first.lease)).toHaveLength(1)
      yield* queue.finalize([{ ...second, end: done }])
      const [last] = yield* taken("other", 1)
      if (!last) return yield* Effect.dieMessage("one was stored")
      yield* queue.finalize([{ ...last, end: done }])
      expect(yield* rowsOf(first.lease)).toHaveLength(0)
    })
  )

  it.scoped("stay while an end is part of an open transaction, and are deleted when lost jobs are recovered", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const transactions = yield* Transactions
      const [run] = yield* taken("undone", 1)
      if (!run) return yield* Effect.dieMessage("one was stored")
      const undone = Effect.zipRight(queue.finalize([{ ...run, end: done }]), Effect.fail("no"))
      yield* Effect.flip(transactions.run(undone))
      const [other] = yield* taken("undone-other", 1)
      if (!other) return yield* Effect.dieMessage("one was stored")
      yield* queue.finalize([{ ...other, end: done }])
      expect(yield* rowsOf(run.lease)).toHaveLength(1)
      yield* queue.finalize([{ ...run, end: done }])
      expect(yield* rowsOf(run.lease)).toHaveLength(1)
      yield* queue.recoverStuck(Duration.minutes(30))
      yield* SteppableClock.advance("30 minutes")
      yield* queue.recoverStuck(Duration.minutes(30))
      expect(yield* rowsOf(run.lease)).toHaveLength(0)
    })
  )

  it.scoped("keep a job alive whose row another session has locked, while its pod lives", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const [run, abandoned] = yield* taken("locked", 2)
      if (!run || !abandoned) return yield* Effect.dieMessage("two were stored")
      const session = yield* TestDatabase.connection
      yield* Effect.promise(() => session.query("begin"))
      yield* Effect.promise(() => session.query("select from nightshift.job where id = $1 for update", [run.id]))
      const limit = Duration.seconds(60)
      const rescued: Array<number> = []
      for (let seconds = 0; seconds <= 90; seconds += 15) {
        expect((yield* queue.heartbeat([run])).lost).toEqual([])
        rescued.push((yield* queue.recoverStuck(limit)).rescued)
        yield* SteppableClock.advance("15 seconds")
      }
      yield* Effect.promise(() => session.query("rollback"))
      rescued.push((yield* queue.recoverStuck(limit)).rescued)
      // Only the job beside it, whose pod sent no heartbeat.
      expect(rescued.reduce((sum, each) => sum + each)).toBe(1)
      expect(yield* queue.finalize([{ ...run, end: done }])).toEqual([])
      expect(yield* queue.finalize([{ ...abandoned, end: done }])).toEqual([abandoned.id])
    })
  )

  it.scoped("stay while a job runs whose end was rolled back, and the job is rescued after the stale limit", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      const [run] = yield* taken("undone-end", 1)
      const [other] = yield* taken("undone-end-other", 1)
      const [living] = yield* taken("undone-end-living", 1)
      if (!run || !other || !living) return yield* Effect.dieMessage("three were stored")
      yield* sql`create table before_end as select * from nightshift.job where id = ${run.id}`
      yield* queue.finalize([{ ...run, end: done }])
      // Simulates a failover to a server that had not received the end.
      yield* sql`delete from nightshift.job where id = ${run.id}`
      yield* sql`insert into nightshift.job select * from before_end`
      yield* queue.finalize([{ ...other, end: done }])
      expect(yield* rowsOf(run.lease)).toHaveLength(1)
      const limit = Duration.seconds(60)
      let rescued = 0
      for (let seconds = 0; seconds <= 60; seconds += 15) {
        expect(rescued).toBe(0)
        yield* queue.heartbeat([living])
        rescued = (yield* queue.recoverStuck(limit)).rescued
        yield* SteppableClock.advance("15 seconds")
      }
      expect(rescued).toBe(1)
      expect(yield* sql`select status, crash_count from nightshift.job where id = ${run.id}`).toEqual([
        { status: "pending", crash_count: 1 }
      ])
    })
  )

  it.scoped("stay if one of the statements that ended their jobs was rolled back", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      const runs = yield* taken("half-undone", 4)
      const [other] = yield* taken("half-undone-other", 1)
      if (!other) return yield* Effect.dieMessage("one was stored")
      const [kept, lost] = [runs.slice(0, 2), runs.slice(2)]
      yield* queue.finalize(kept.map((run) => ({ ...run, end: done })))
      const lostIds = lost.map(({ id }) => id)
      yield* sql`create table before_half as select * from nightshift.job where ${sql.in("id", lostIds)}`
      yield* queue.finalize(lost.map((run) => ({ ...run, end: done })))
      yield* sql`delete from nightshift.job where ${sql.in("id", lostIds)}`
      yield* sql`insert into nightshift.job select * from before_half`
      yield* queue.finalize([{ ...other, end: done }])
      expect(yield* rowsOf(runs[0]?.lease)).toHaveLength(1)
    })
  )

  it.scoped("are deleted with ends that have results, too", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const ended = []
      for (const name of ["result-1", "result-2", "result-3"]) {
        const [run] = yield* taken(name, 1)
        if (!run) return yield* Effect.dieMessage("one was stored")
        yield* queue.finalize([{ ...run, end: End.Done({ result: "1" }) }])
        ended.push(run.lease)
      }
      const left = yield* Effect.forEach(ended, (lease) => Effect.map(rowsOf(lease), (rows) => rows.length))
      expect(left).toEqual([0, 0, 1])
    })
  )

  it.scoped("are not needed to recover a row that external SQL marked as running", () =>
    Effect.gen(function* () {
      const fresh = yield* Layer.build(house)
      yield* Effect.gen(function* () {
        const queue = yield* Queue
        const [run] = yield* taken("stray", 1)
        if (!run) return yield* Effect.dieMessage("one was stored")
        const { sql } = yield* Database
        yield* sql`delete from nightshift.lease where id = ${run.lease}`
        yield* queue.recoverStuck(Duration.minutes(30))
        yield* SteppableClock.advance("30 minutes")
        expect(yield* queue.recoverStuck(Duration.minutes(30))).toEqual({ rescued: 1, poisoned: 0, cancelled: 0 })
      }).pipe(Effect.provide(fresh))
    })
  )

  it.scoped("leave the index entries of a claimed job unchanged", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const [run] = yield* taken("hot", 1)
      const versions = yield* sql<{ definition: string }>`
        select indexdef as definition from pg_indexes where schemaname = 'nightshift' and tablename = 'job'`
      // Columns that a claim writes; an index that mentions one of them would have to be updated too.
      const written = /\b(status|lease|pod_id|attempt|started_at|heartbeat_at|updated_at)\b/
      expect(
        versions.map(({ definition }) => definition.replace(/^.*? USING/, "")).filter((d) => written.test(d))
      ).toEqual([])
      expect(run).toBeDefined()
    })
  )
})
