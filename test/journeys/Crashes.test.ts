import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Ref, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as Nightshift from "../support/Nightshift.js"
import { isLong, scale } from "../support/Scale.js"
import * as TestDatabase from "../support/TestDatabase.js"

const app = fileURLToPath(new URL("fixtures/ledger-app.mjs", import.meta.url))
const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

const pod = (cwd: string, url: Redacted.Redacted) =>
  Effect.tap(
    Nightshift.start(["serve", "--app", app, "--port", "0"], {
      cwd,
      env: {
        DATABASE_URL: Redacted.value(url),
        // A short timeout by setting, so that a killed pod's jobs are recovered soon.
        QUEUE_STUCK_TIMEOUT: "3s",
        QUEUE_HEARTBEAT: "500ms",
        QUEUE_JANITOR_INTERVAL: "1s",
        LOG_LEVEL: "warning"
      }
    }),
    (running) => running.said(/is up/)
  )

const enqueueAll = (kind: string, count: number) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    for (let from = 0; from < count; from += 1_000) {
      const jobs = Array.from({ length: Math.min(1_000, count - from) }, (_, index) => ({
        kind,
        version: 1,
        queue: "ledger",
        payload: { n: from + index },
        attempts: 5
      }))
      yield* queue.enqueue(jobs)
    }
  })

const unfinished = Effect.gen(function* () {
  const { sql } = yield* Database
  const rows = yield* sql<{ count: number }>`
    select count(*)::int as count from nightshift.job where status in ('pending', 'running')`
  return rows[0]?.count ?? 0
})

/** Pods work through the jobs while one after another is killed with -9 and replaced. */
const survive = (kind: string, count: number, kills: number) =>
  Effect.gen(function* () {
    const cwd = yield* Nightshift.folder
    const url = yield* DatabaseUrl
    const { sql } = yield* Database
    yield* sql`create table ledger (n int not null, attempt int not null)`
    yield* enqueueAll(kind, count)
    const pods = yield* Effect.all(
      Array.from({ length: scale("CRASH_PODS", { usual: 2, long: 3 }) }, () => pod(cwd, url)),
      { concurrency: "unbounded" }
    )
    const alive = yield* Ref.make<ReadonlyArray<Nightshift.Running>>(pods)
    const killOne = Effect.gen(function* () {
      const [victim, ...others] = yield* Ref.get(alive)
      if (victim === undefined) return
      yield* victim.signal("SIGKILL")
      yield* victim.finished
      yield* Ref.set(alive, [...others, yield* pod(cwd, url)])
    })
    yield* Effect.repeat(killOne, Schedule.spaced("300 millis").pipe(Schedule.intersect(Schedule.recurs(kills - 1))))
    yield* Effect.repeat(unfinished, { until: (left) => left === 0, schedule: Schedule.spaced("250 millis") })
    return sql
  })

describe("jobs whose pods are killed with -9", () => {
  it.scopedLive(
    "are all done, none lost and none wrongly dead, each with its effect at least once",
    () =>
      Effect.gen(function* () {
        const count = scale("CRASH_JOBS", { usual: 1_000, long: 5_000 })
        const sql = yield* survive("recorded", count, scale("CRASH_KILLS", { usual: 1, long: 4 }))
        expect(yield* sql`select status, count(*)::int as count from nightshift.job group by 1`).toEqual([
          { status: "done", count }
        ])
        expect(yield* sql`select count(distinct n)::int as count from ledger`).toEqual([{ count }])
        expect(yield* sql`select count(*)::int as count from nightshift.job where attempt > max_attempts`).toEqual([
          { count: 0 }
        ])
      }).pipe(Effect.provide(house)),
    240_000
  )
})

// Each of these has a smaller test without processes: long/TransactionFaults, database/Database.
if (isLong) {
  describe("transactional jobs whose pods are killed with -9", () => {
    it.scopedLive(
      "have their effects exactly once when these are part of the job's own transaction",
      () =>
        Effect.gen(function* () {
          const count = scale("CRASH_TRANSACTIONS", 1_500)
          const sql = yield* survive("recorded_once", count, scale("CRASH_KILLS", 3))
          expect(yield* sql`select count(*)::int as lines, count(distinct n)::int as jobs from ledger`).toEqual([
            { lines: count, jobs: count }
          ])
        }).pipe(Effect.provide(house)),
      240_000
    )
  })

  describe("jobs whose connections are all cut repeatedly", () => {
    it.scopedLive(
      "are all done and counted once, and no pod crashes",
      () =>
        Effect.gen(function* () {
          const count = scale("CUT_JOBS", 4_000)
          const cwd = yield* Nightshift.folder
          const url = yield* DatabaseUrl
          const { sql } = yield* Database
          yield* sql`create table ledger (n int not null, attempt int not null)`
          const pods = [yield* pod(cwd, url), yield* pod(cwd, url)]
          yield* enqueueAll("recorded", count)
          // Every connection except this one: claims, finalizes, listeners and heartbeats.
          const cut = sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and application_name like 'nightshift%'
            and pid not in (select pid from pg_stat_activity where client_port = inet_client_port())`.pipe(
            Effect.retry({ times: 3 })
          )
          yield* Effect.repeat(
            Effect.ignore(cut),
            Schedule.spaced("200 millis").pipe(Schedule.intersect(Schedule.recurs(scale("CUTS", 8) - 1)))
          )
          yield* Effect.repeat(Effect.retry(unfinished, { times: 20 }), {
            until: (left) => left === 0,
            schedule: Schedule.spaced("250 millis")
          })
          expect(yield* sql`select status, count(*)::int as count from nightshift.job group by 1`).toEqual([
            { status: "done", count }
          ])
          for (const running of pods) {
            yield* running.signal("SIGTERM")
            const { code, stderr } = yield* running.finished
            expect(code, stderr.slice(-2_000)).toBe(0)
          }
          expect(
            yield* sql`select minutes, sum(completed)::int as completed, sum(dead)::int as dead
            from nightshift.job_bucket group by 1 order by 1`
          ).toEqual([1, 10, 60].map((minutes) => ({ minutes, completed: count, dead: 0 })))
        }).pipe(Effect.provide(house)),
      240_000
    )
  })
}
