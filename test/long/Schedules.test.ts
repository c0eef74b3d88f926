import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Nightshift from "../support/Nightshift.js"
import { scale } from "../support/Scale.js"
import * as TestDatabase from "../support/TestDatabase.js"

const app = fileURLToPath(new URL("../journeys/fixtures/schedule-app.mjs", import.meta.url))

const pod = (cwd: string) =>
  Effect.gen(function* () {
    const url = yield* DatabaseUrl
    const running = yield* Nightshift.start(["serve", "--app", app, "--port", "0"], {
      cwd,
      // A short lease by setting, so that a dead leader is replaced soon.
      env: { DATABASE_URL: Redacted.value(url), NIGHTSHIFT_LEASE: "4s", LOG_LEVEL: "warning" }
    })
    yield* running.said(/is up/)
    return running
  })

/** Ticks with a job, in order, as epoch seconds. */
const ticks = Effect.gen(function* () {
  const { sql } = yield* Database
  const rows = yield* sql<{ tick: number }>`
    select extract(epoch from (meta->>'tick')::timestamptz)::float8 as tick from nightshift.job order by 1`
  return rows.map(({ tick }) => tick)
})

const until = (done: (ticks: ReadonlyArray<number>) => boolean) =>
  Effect.retry(Effect.filterOrFail(ticks, done), Schedule.spaced("100 millis"))

/** Pid of the current leader's process. */
const leaderPid = Effect.gen(function* () {
  const { sql } = yield* Database
  const rows = yield* sql<{ pid: number }>`
    select p.os_pid as pid from nightshift.leader l join nightshift.pod p on p.id = l.pod_id`
  return rows[0]?.pid
})

/** In one snapshot: the ticks in the schedule's history, those with a job of that tick, and the number of jobs. */
const recorded = Effect.gen(function* () {
  const { sql } = yield* Database
  return yield* sql<{ recorded: number; true: number; jobs: number }>`
    select jsonb_array_length(history) as recorded, (select count(*)::int from nightshift.job) as jobs,
      (select count(distinct j.id)::int from jsonb_array_elements(history) h join nightshift.job j
        on j.id = (h->>'job')::uuid
        and extract(epoch from (j.meta->>'tick')::timestamptz) * 1000 = (h->>'at')::numeric) as true
    from nightshift.schedule`
})

const seconds = scale("SCHEDULE_SECONDS", 30)

describe("a schedule that fires every second, on two pods", () => {
  it.scopedLive(
    "has one job per second, even if the leader is killed with -9 and another takes over",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const pods = yield* Effect.all([pod(cwd), pod(cwd)], { concurrency: "unbounded" })
        const [before, after] = [Math.floor(seconds / 4), Math.ceil((3 * seconds) / 4)]
        yield* until((all) => all.length >= before)
        const pid = yield* leaderPid
        const leader = pods.find((running) => running.pid === pid)
        expect(leader).toBeDefined()
        yield* leader?.signal("SIGKILL") ?? Effect.void
        yield* leader?.finished ?? Effect.void
        const last = (yield* ticks).at(-1) ?? 0
        // Covers the time without a leader, and a little more.
        const all = yield* until((now) => (now.at(-1) ?? 0) >= last + after)
        const [first = 0] = all
        expect(all).toEqual(Array.from({ length: all.length }, (_, second) => first + second))
        expect(yield* leaderPid).not.toBe(pid)
        const [history] = yield* recorded
        const remembered = Math.min(history?.jobs ?? 0, 20)
        expect(history).toMatchObject({ recorded: remembered, true: remembered })
        const { sql } = yield* Database
        yield* Effect.repeat(
          sql`select 1 from nightshift.job where status <> 'done' and created_at < to_timestamp(${last})`,
          {
            until: (open) => open.length === 0,
            schedule: Schedule.spaced("100 millis")
          }
        )
      }).pipe(Effect.provide(TestDatabase.layer)),
    120_000
  )
})
