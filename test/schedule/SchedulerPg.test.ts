import { expect } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { Database } from "../../src/database/Database.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import * as Story from "./SchedulerStories.js"

const { create, elected, get, jobs, nothing, onPostgres, pass, passAt, ticks } = Story

// Cases that only PostgreSQL can show: rows written by external SQL, and concurrent transactions.

onPostgres("a schedule that was written by hand", (story) => {
  const insert = (cron: string, timezone = "UTC") =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* sql`insert into nightshift.schedule (name, kind, payload, cron, timezone, created_at, updated_at)
        values ('nightly', 'report', '{}', ${cron}, ${timezone}, '2030-01-01', '2030-01-01')`
    })

  story("gets its next time at first sight, and does not fire", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* insert("0 3 * * *")
      expect(yield* passAt("2030-01-01T03:00:00Z", term)).toEqual({ ...nothing, seeded: 1 })
      expect(yield* jobs).toEqual([])
      expect(yield* get()).toMatchObject({ nextFireAt: Date.parse("2030-01-02T03:00Z") })
      expect(yield* passAt("2030-01-02T03:00:00Z", term)).toEqual({ ...nothing, fired: 1 })
    })
  )

  for (const [cron, timezone, reason] of [
    ["0 0 30 2 *", "UTC", /never fire/],
    ["nonsense", "UTC", /five fields/],
    ["0 3 * * *", "Mars/Olympus", /IANA/]
  ] as const) {
    story(`is paused with the reason when it cannot fire: ${cron} ${timezone}`, () =>
      Effect.gen(function* () {
        const term = yield* elected
        yield* insert(cron, timezone)
        expect(yield* pass(term)).toEqual({ ...nothing, paused: 1 })
        expect(yield* get()).toMatchObject({ paused: true, lastError: expect.stringMatching(reason) })
        const schedules = yield* Schedules
        const refused = yield* Effect.flip(schedules.edit("nightly", { paused: false }))
        expect(refused).toMatchObject({ _tag: "InvalidSchedule" })
        const mended = yield* schedules.edit("nightly", { paused: false, cron: "0 4 * * *", timezone: "UTC" })
        expect(mended.after).toMatchObject({ paused: false, lastError: undefined })
      })
    )
  }

  story("is not stuck on an instant between two milliseconds", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const term = yield* elected
      yield* insert("0 3 * * *")
      yield* sql`update nightshift.schedule set next_fire_at = '2030-01-01 03:00:00.123456'`
      expect(yield* passAt("2030-01-01T03:00:01Z", term)).toEqual({ ...nothing, fired: 1 })
    })
  )
})

onPostgres("schedulers that race", (story) => {
  story("store one job per tick, even with a leader that does not know its term is over", () =>
    Effect.gen(function* () {
      const old = yield* elected
      const names = ["a", "b", "c", "d", "e"]
      yield* Effect.forEach(names, (name) => create({ name, cron: "* * * * *" }))
      const { sql } = yield* Database
      yield* sql`update nightshift.leader set pod_id = null, leased_until = null`
      const term = yield* elected
      for (let minute = 0; minute < 10; minute += 1) {
        yield* SteppableClock.advance("1 minute")
        const exits = yield* Effect.all(
          [term, old, term, term, old].map((each) => Effect.exit(pass(each))),
          { concurrency: "unbounded" }
        )
        const fired = exits.map((exit) => (Exit.isSuccess(exit) ? exit.value.fired : 0))
        expect(fired.reduce((sum, count) => sum + count, 0)).toBe(names.length)
        expect(fired[1]).toBe(0)
        expect(fired[4]).toBe(0)
      }
      const rows = yield* sql<{ jobs: number; ticks: number; failed: number }>`
        select count(*)::int as jobs, count(distinct (meta->>'schedule', meta->>'tick'))::int as ticks
        from nightshift.job`
      expect(rows).toEqual([{ jobs: 50, ticks: 50 }])
    })
  )

  story("do not wait for a schedule that is locked by an open transaction", () =>
    Effect.gen(function* () {
      const term = yield* elected
      for (const name of ["a", "b", "c", "d", "e", "f"]) yield* create({ name, cron: "* * * * *" })
      const other = yield* TestDatabase.connection
      yield* Effect.promise(() => other.query("begin"))
      yield* Effect.promise(() => other.query("select from nightshift.schedule where name < 'e' for update"))
      yield* SteppableClock.advance("1 minute")
      expect(yield* pass(term)).toEqual({ ...nothing, fired: 2, superseded: 4 })
      yield* Effect.promise(() => other.query("rollback"))
      expect(yield* pass(term)).toEqual({ ...nothing, fired: 4 })
    }).pipe(Effect.scoped)
  )

  story("skip a schedule that an operator changes concurrently, or fire its previous version", () =>
    Effect.gen(function* () {
      const term = yield* elected
      const schedules = yield* Schedules
      yield* create({ cron: "* * * * *" })
      for (let minute = 0; minute < 10; minute += 1) {
        yield* SteppableClock.advance("1 minute")
        const payload = { minute }
        yield* Effect.all([pass(term), schedules.edit("nightly", { payload })], { concurrency: "unbounded" })
        yield* pass(term)
      }
      expect(new Set(yield* ticks).size).toBe(10)
      expect(yield* jobs).toHaveLength(10)
    })
  )
})
