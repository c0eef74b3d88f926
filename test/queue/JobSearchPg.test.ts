import { describe, expect, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import { Hints } from "../../src/database/Hints.js"
import * as Listener from "../../src/database/Listener.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { BoundedQuery } from "../../src/queue/search/BoundedQuery.js"
import { JobEnds } from "../../src/queue/search/JobEnds.js"
import { type JobFilter, JobSearch, SearchWindow } from "../../src/queue/search/JobSearch.js"
import * as JobSearchPg from "../../src/queue/search/JobSearchPg.js"
import type { JobSort } from "../../src/queue/search/JobSort.js"
import { fill } from "../support/ManyJobs.js"
import * as TestDatabase from "../support/TestDatabase.js"

const layer = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

describe("lists on PostgreSQL", () => {
  it.scopedLive("find waiting, failed or dead jobs below any number of hot jobs without reading those", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      yield* fill("calm", 60, "pending", "tomorrow")
      yield* fill("calm", 60, "dead", "yesterday")
      yield* sql`update nightshift.job set last_error = 'order 17 not found' where dead_reason is not null`
      yield* fill("calm", 2_000, "dead", "yesterday")
      yield* sql`update nightshift.job set last_error = 'no answer' where dead_reason is not null and last_error is null`
      yield* fill("calm", 60, "pending", "yesterday")
      yield* sql`update nightshift.job set last_error = 'no answer' where run_at < 'now' and finished_at is null`
      yield* fill("hot", 20_000, "pending", "yesterday")
      // The hot jobs get the newest ids.
      yield* sql`update nightshift.job set id = overlay(id::text placing 'ffff' from 1 for 4)::uuid where queue = 'hot'`
      yield* sql`update nightshift.job set id = overlay(id::text placing '0000' from 1 for 4)::uuid where queue = 'calm'`
      yield* sql`analyze nightshift.job`
      const { list, total } = yield* JobSearch
      // Rows read by sequential scans are counted at the table, those read by index scans at the index.
      const read = Effect.map(
        sql<{ rows: number }>`select (pg_stat_get_xact_tuples_returned('nightshift.job'::regclass)
          + sum(pg_stat_get_xact_tuples_fetched(place)))::int as rows
          from (select indexrelid as place from pg_index where indrelid = 'nightshift.job'::regclass
            union all select 'nightshift.job'::regclass) as places`,
        ([row]) => row?.rows ?? 0
      )
      const maxRowsRead: ReadonlyArray<readonly [JobFilter, number, JobSort?]> = [
        [{ state: "scheduled" }, 1_000],
        [{ state: "retrying" }, 1_000],
        [{ state: "dead" }, 1_000],
        [{ state: "dead", queue: "calm" }, 1_000],
        [{ state: "dead", kind: "k", reason: "exhausted", shape: "order # not found" }, 300],
        [{ text: "no answer" }, 5_000],
        // Orders that an index has.
        [{ state: "scheduled" }, 1_000, { by: "due", descending: false }],
        [{ state: "pending" }, 1_000, { by: "due", descending: true }],
        [{ state: "dead" }, 1_000, { by: "finished", descending: true }],
        [{ state: ["dead", "done"] }, 3_000, { by: "finished", descending: false }],
        // Others sort a bounded number of the newest jobs.
        [{ state: "pending" }, 45_000, { by: "priority", descending: true }]
      ]
      for (const [filter, most, sort] of maxRowsRead) {
        // On one connection, because the counters are per connection.
        const [before, found, after] = yield* transaction(Effect.all([read, list(filter, { limit: 50, sort }), read]))
        expect(found.jobs, JSON.stringify(filter)).toHaveLength(50)
        expect(after - before, JSON.stringify(filter)).toBeLessThan(most)
        const isBounded = sort?.by === "priority"
        expect(found.sortedAmong).toBe(isBounded ? 10_000 : undefined)
        if (filter.state !== "pending") expect((yield* total(filter, 3_000)).exact).toBe(true)
      }
    }).pipe(Effect.provide(layer))
  )
})

describe("a search that no index supports", () => {
  it.scopedLive("reads a number of jobs per page, newest first, and continues with older ones", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* fill("hot", 30, "done")
      yield* sql`update nightshift.job set kind = 'rare', payload = '{"n": 1}'
        where id in (select id from nightshift.job order by id limit 2)`
      const { list } = yield* JobSearch
      const page = (filter: JobFilter, cursor?: string) =>
        Effect.provideService(list(filter, { limit: 5, cursor }), SearchWindow, 10)
      const first = yield* page({ payload: { n: 1 } })
      expect(first).toMatchObject({ jobs: [], searched: 10 })
      const second = yield* page({ payload: { n: 1 } }, first.next)
      expect(second).toMatchObject({ jobs: [], searched: 10 })
      const third = yield* page({ payload: { n: 1 } }, second.next)
      expect(third.jobs).toHaveLength(2)
      const last = yield* page({ payload: { n: 1 } }, third.next)
      expect(last).toMatchObject({ jobs: [], next: undefined, searched: undefined })
      // A full page says nothing about how far it searched.
      expect(yield* page({ kind: "k" })).toMatchObject({ jobs: [{}, {}, {}, {}, {}], searched: undefined })
      // Jobs in other states have an index.
      expect(yield* page({ kind: "rare", state: "dead" })).toMatchObject({ jobs: [], next: undefined })
    }).pipe(Effect.provide(layer))
  )
})

describe("a search that takes too long", () => {
  it.scopedLive("is cancelled by the server, and says to narrow the filter", () =>
    Effect.gen(function* () {
      const other = yield* TestDatabase.connection
      yield* Effect.promise(() => other.query("begin; lock table nightshift.job in access exclusive mode"))
      const search = yield* JobSearch
      const looks = [search.list({ text: "x" }, { limit: 1 }), search.total({}, 10), search.counts]
      for (const look of looks) {
        expect(yield* Effect.flip(look as Effect.Effect<unknown, unknown>)).toMatchObject({
          _tag: "SearchTooSlow",
          message: expect.stringContaining("Narrow the filter")
        })
      }
      yield* Effect.promise(() => other.query("rollback"))
      expect(yield* search.total({}, 10)).toEqual({ count: 0, exact: true })
    }).pipe(
      Effect.provide(
        JobSearchPg.layer.pipe(
          Layer.provide(BoundedQuery.layerWithin("100 millis")),
          Layer.provide(Layer.provide(JobEnds.layer, Hints.layerLocal)),
          Layer.provideMerge(TestDatabase.layer)
        )
      )
    )
  )

  it.scopedLive("waits for its turn no longer than its limit", () =>
    Effect.gen(function* () {
      const look = yield* BoundedQuery
      const { sql } = yield* Database
      const asleep = yield* Deferred.make<void>()
      const long = Effect.zipRight(Deferred.succeed(asleep, undefined), sql`select pg_sleep(0.5)`)
      const scanning = yield* Effect.fork(look(long, { scans: true }))
      yield* Deferred.await(asleep)
      const short = look(sql`select 1`, { scans: true, timeout: Duration.millis(50) })
      expect(yield* Effect.flip(short)).toMatchObject({ _tag: "SearchTooSlow", seconds: 0.05 })
      expect(scanning.unsafePoll()).toBeNull()
      yield* Fiber.join(scanning)
    }).pipe(Effect.provide(Layer.provideMerge(BoundedQuery.layer, TestDatabase.layer)))
  )

  it.scopedLive("that scans all jobs waits for the previous one, and blocks no other query", () =>
    Effect.gen(function* () {
      const look = yield* BoundedQuery
      const { sql } = yield* Database
      const order: Array<string> = []
      const asleep = yield* Deferred.make<void>()
      const ended = (what: string) => Effect.sync(() => void order.push(what))
      const first = Effect.zipRight(Deferred.succeed(asleep, undefined), sql`select pg_sleep(0.3)`)
      const scanning = yield* Effect.fork(Effect.zipRight(look(first, { scans: true }), ended("first scan")))
      yield* Deferred.await(asleep)
      const second = look(sql`select 1`, { scans: true })
      yield* Effect.all(
        [Effect.zipRight(second, ended("second scan")), Effect.zipRight(look(sql`select 1`), ended("look"))],
        {
          concurrency: "unbounded"
        }
      )
      yield* Fiber.join(scanning)
      expect(order).toEqual(["look", "first scan", "second scan"])
    }).pipe(Effect.provide(Layer.provideMerge(BoundedQuery.layer, TestDatabase.layer)))
  )
})
