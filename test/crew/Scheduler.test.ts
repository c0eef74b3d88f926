import { expect } from "@effect/vitest"
import { Effect, Exit } from "effect"
import * as Scheduler from "../../src/crew/duties/Scheduler.js"
import { trigger } from "../../src/crew/duties/Trigger.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { JobDesk } from "../../src/queue/desk/JobDesk.js"
import { Queue } from "../../src/queue/Queue.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import * as Story from "./SchedulerStories.js"

const { create, elected, everywhere, get, history, jobs, nothing, onPostgres, passAt, ticks } = Story

/** A queue that takes nothing. */
const queueAway = Effect.map(Queue, (queue) => {
  const away = new DatabaseUnavailable({ detail: "cut on purpose", nothingWritten: true })
  return Queue.of({ ...queue, enqueue: () => away })
})

everywhere("a schedule that is due", (story) => {
  story("becomes a job that knows its schedule and tick, routed as its kind is registered", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create()
      expect(yield* passAt("2030-01-01T02:59:59.999Z", term)).toEqual(nothing)
      expect(yield* passAt("2030-01-01T03:00:00.004Z", term)).toEqual({ ...nothing, fired: 1 })
      const [job, ...others] = yield* jobs
      expect(others).toEqual([])
      expect(job).toMatchObject({
        kind: "report",
        queue: "mail",
        version: 3,
        maxAttempts: 7,
        payload: { day: "yesterday" },
        status: "pending",
        dedupe: { key: "schedule:nightly:2030-01-01T03:00:00.000Z", scope: "retained" },
        meta: { schedule: "nightly", tick: "2030-01-01T03:00:00.000Z" }
      })
      expect(yield* get()).toMatchObject({
        lastFireAt: Date.parse("2030-01-01T03:00Z"),
        nextFireAt: Date.parse("2030-01-02T03:00Z"),
        lastJobId: job?.id
      })
      expect(yield* Scheduler.pass(term)).toEqual(nothing)
      const metrics = yield* Effect.flatMap(Metrics, ({ render }) => render)
      expect(metrics).toContain('nightshift_schedule_last_fire_timestamp_seconds{schedule="nightly"} 1893466800')
    })
  )

  story("goes to its own queue with its own attempts, where it says so", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ queue: "slow", maxAttempts: 2 })
      yield* passAt("2030-01-01T03:00:00Z", term)
      expect(yield* jobs).toMatchObject([{ queue: "slow", maxAttempts: 2, version: 3 }])
    })
  )

  story("of a kind that nobody registered still becomes a job", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ kind: "unheard-of" })
      yield* passAt("2030-01-01T03:00:00Z", term)
      expect(yield* jobs).toMatchObject([{ kind: "unheard-of", queue: "default", version: 1 }])
    })
  )

  story("is not fired under a term that is over, and is not moved on", () =>
    Effect.gen(function* () {
      yield* elected
      yield* create()
      const over = yield* Effect.flip(passAt("2030-01-01T03:00:00Z", Story.nobodysTerm))
      expect(over).toMatchObject({ _tag: "TermOver" })
      expect(yield* jobs).toEqual([])
      expect(yield* get()).toMatchObject({ nextFireAt: Date.parse("2030-01-01T03:00Z"), lastFireAt: undefined })
    })
  )

  story("is fired once, though two fire at once in the same term", () =>
    Effect.gen(function* () {
      const term = yield* elected
      for (const name of ["a", "b", "c"]) yield* create({ name })
      yield* Story.stepTo("2030-01-01T03:00:00Z")
      const reports = yield* Effect.all([Scheduler.pass(term), Scheduler.pass(term), Scheduler.pass(term)], {
        concurrency: "unbounded"
      })
      expect(reports.reduce((fired, report) => fired + report.fired, 0)).toBe(3)
      expect(yield* jobs).toHaveLength(3)
    })
  )

  story("stays due when its job could not be stored, and is fired with the next pass", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create()
      const failing = yield* queueAway
      const report = yield* Effect.provideService(passAt("2030-01-01T03:00:00Z", term), Queue, failing)
      expect(report).toEqual({ ...nothing, failed: 1 })
      expect(yield* get()).toMatchObject({
        enabled: true,
        nextFireAt: Date.parse("2030-01-01T03:00Z"),
        lastFireAt: undefined,
        lastError: undefined
      })
      expect(yield* Scheduler.pass(term)).toEqual({ ...nothing, fired: 1 })
      expect(yield* ticks).toEqual(["2030-01-01T03:00:00.000Z"])
    })
  )

  story("is fired once, though the answer that its job is stored was lost", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create()
      const queue = yield* Queue
      const lost = new DatabaseUnavailable({ detail: "lost on purpose", nothingWritten: false })
      const forgetful = Queue.of({ ...queue, enqueue: (jobs) => Effect.zipRight(queue.enqueue(jobs), lost) })
      yield* Effect.provideService(passAt("2030-01-01T03:00:00Z", term), Queue, forgetful)
      expect(yield* Scheduler.pass(term)).toEqual({ ...nothing, fired: 1 })
      expect(yield* ticks).toEqual(["2030-01-01T03:00:00.000Z"])
    })
  )

  story("does not wait for another one that fails before it", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ name: "a", payload: "poison" })
      yield* create({ name: "b" })
      const queue = yield* Queue
      const picky = Queue.of({
        ...queue,
        enqueue: (jobs) => (jobs[0]?.payload === "poison" ? Effect.dieMessage("a mistake") : queue.enqueue(jobs))
      })
      const report = yield* Effect.provideService(passAt("2030-01-01T03:00:00Z", term), Queue, picky)
      expect(report).toEqual({ ...nothing, fired: 1, failed: 1 })
      expect(yield* get("a")).toMatchObject({ enabled: true, nextFireAt: Date.parse("2030-01-01T03:00Z") })
    })
  )
})

everywhere("ticks that nobody fired for days", (story) => {
  const days = (missed: Parameters<typeof create>[0], instant = "2030-01-05T09:00:00Z") =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create(missed)
      const report = yield* passAt(instant, term)
      expect(yield* Scheduler.pass(term)).toEqual(nothing)
      return report
    })

  story("are made up for by one job, of the latest", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: "one" })).toEqual({ ...nothing, fired: 1, missed: 1 })
      expect(yield* ticks).toEqual(["2030-01-05T03:00:00.000Z"])
      expect(yield* get()).toMatchObject({ nextFireAt: Date.parse("2030-01-06T03:00Z") })
    })
  )

  story("are made up for one by one, where all are wanted", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: { all: 10 } })).toEqual({ ...nothing, fired: 5 })
      expect(yield* ticks).toEqual([1, 2, 3, 4, 5].map((day) => `2030-01-0${day}T03:00:00.000Z`))
      expect(yield* get()).toMatchObject({
        lastFireAt: Date.parse("2030-01-05T03:00Z"),
        nextFireAt: Date.parse("2030-01-06T03:00Z")
      })
    })
  )

  story("are made up for up to the limit, the latest", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: { all: 2 } })).toEqual({ ...nothing, fired: 2, missed: 1 })
      expect(yield* ticks).toEqual(["2030-01-04T03:00:00.000Z", "2030-01-05T03:00:00.000Z"])
    })
  )

  story("are made up for up to a thousand, quickly, however many there were", () =>
    Effect.gen(function* () {
      expect(yield* days({ cron: "* * * * * *", missed: { all: 1_000 } })).toMatchObject({ fired: 1_000 })
      expect((yield* ticks).at(0)).toBe("2030-01-05T08:43:21.000Z")
      expect((yield* ticks).at(-1)).toBe("2030-01-05T09:00:00.000Z")
    })
  )

  story("are left, where none is wanted", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: "none" })).toEqual({ ...nothing, missed: 1 })
      expect(yield* jobs).toEqual([])
      expect(yield* get()).toMatchObject({ nextFireAt: Date.parse("2030-01-06T03:00Z"), lastFireAt: undefined })
    })
  )

  story("are left, but for one that is only as late as the death of a leader makes it", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: "none" }, "2030-01-05T03:00:20Z")).toMatchObject({ fired: 1 })
      expect(yield* ticks).toEqual(["2030-01-05T03:00:00.000Z"])
    })
  )
})

everywhere("a schedule whose runs must not overlap", (story) => {
  story("passes over its time while the job before is not over, and says so", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ overlap: "skip" })
      yield* passAt("2030-01-01T03:00:00Z", term)
      expect(yield* passAt("2030-01-02T03:00:00Z", term)).toEqual({ ...nothing, skipped: 1 })
      expect(yield* get()).toMatchObject({
        lastFireAt: Date.parse("2030-01-01T03:00Z"),
        lastSkipAt: Date.parse("2030-01-02T03:00Z"),
        nextFireAt: Date.parse("2030-01-03T03:00Z")
      })
      const [job] = yield* jobs
      if (job !== undefined) yield* Effect.flatMap(JobDesk, (desk) => desk.cancel(job.id))
      expect(yield* passAt("2030-01-03T03:00:00Z", term)).toEqual({ ...nothing, fired: 1 })
      expect(yield* ticks).toEqual(["2030-01-01T03:00:00.000Z", "2030-01-03T03:00:00.000Z"])
      const metrics = yield* Effect.flatMap(Metrics, ({ render }) => render)
      expect(metrics).toContain('nightshift_schedule_skips_total{schedule="nightly"} 1')
    })
  )

  story("fires the first of several that it missed, and passes over the rest", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ overlap: "skip", missed: { all: 10 } })
      expect(yield* passAt("2030-01-03T09:00:00Z", term)).toEqual({ ...nothing, fired: 1, skipped: 2 })
      expect(yield* ticks).toEqual(["2030-01-01T03:00:00.000Z"])
    })
  )

  story("fires when the job before was deleted", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ overlap: "skip" })
      yield* passAt("2030-01-01T03:00:00Z", term)
      const [job] = yield* jobs
      if (job !== undefined) yield* Effect.flatMap(JobDesk, (desk) => desk.remove(job.id))
      expect(yield* passAt("2030-01-02T03:00:00Z", term)).toEqual({ ...nothing, fired: 1 })
    })
  )
})

everywhere("the history of a schedule", (story) => {
  story("says what came of its ticks: fired, caught up, passed over, given up, and wanted by somebody", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ overlap: "skip" })
      const done = Effect.flatMap(jobs, (all) =>
        Effect.forEach(all, ({ id, status }) =>
          Effect.flatMap(JobDesk, (desk) => (status === "pending" ? desk.cancel(id) : Effect.void))
        )
      )
      yield* passAt("2030-01-01T03:00:00.500Z", term)
      yield* passAt("2030-01-02T03:00:00Z", term)
      yield* done
      yield* passAt("2030-01-06T04:00:00Z", term)
      yield* done
      yield* trigger("nightly", "api:admin")
      const [first, caughtUp, wanted] = yield* jobs
      expect(yield* history).toEqual([
        { _tag: "Triggered", at: Date.parse("2030-01-06T04:00Z"), job: wanted?.id, by: "api:admin" },
        { _tag: "CaughtUp", at: Date.parse("2030-01-06T03:00Z"), job: caughtUp?.id },
        { _tag: "Missed", since: Date.parse("2030-01-03T03:00Z"), at: Date.parse("2030-01-05T03:00Z") },
        { _tag: "Skipped", since: Date.parse("2030-01-02T03:00Z"), at: Date.parse("2030-01-02T03:00Z") },
        { _tag: "Fired", at: Date.parse("2030-01-01T03:00Z"), job: first?.id }
      ])
    })
  )

  story("tells of ticks that were given up even where nothing is made up for", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ missed: "none" })
      yield* passAt("2030-01-01T12:00:00Z", term)
      yield* passAt("2030-01-02T03:00:20Z", term)
      yield* passAt("2030-01-04T12:00:00Z", term)
      expect(yield* history).toMatchObject([
        { _tag: "Missed", since: Date.parse("2030-01-03T03:00Z"), at: Date.parse("2030-01-04T03:00Z") },
        { _tag: "Fired", at: Date.parse("2030-01-02T03:00Z") },
        { _tag: "Missed", since: Date.parse("2030-01-01T03:00Z"), at: Date.parse("2030-01-01T03:00Z") }
      ])
    })
  )

  story("tells of many at once in one line, and of each job in its own", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ missed: { all: 3 } })
      yield* passAt("2030-01-08T09:00:00Z", term)
      expect(yield* history).toMatchObject([
        { _tag: "CaughtUp", at: Date.parse("2030-01-08T03:00Z") },
        { _tag: "CaughtUp", at: Date.parse("2030-01-07T03:00Z") },
        { _tag: "CaughtUp", at: Date.parse("2030-01-06T03:00Z") },
        { _tag: "Missed", since: Date.parse("2030-01-01T03:00Z"), at: Date.parse("2030-01-05T03:00Z") }
      ])
      yield* Effect.flatMap(Schedules, (schedules) =>
        schedules.edit("nightly", { overlap: "skip", missed: { all: 9 } })
      )
      yield* passAt("2030-01-12T09:00:00Z", term)
      expect((yield* history)[0]).toEqual({
        _tag: "Skipped",
        since: Date.parse("2030-01-09T03:00Z"),
        at: Date.parse("2030-01-12T03:00Z")
      })
    })
  )

  story("has nothing of a fire that did not come to pass", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create()
      const failing = yield* queueAway
      const failed = yield* Effect.provideService(passAt("2030-01-05T03:00:00Z", term), Queue, failing)
      expect(failed).toMatchObject({ fired: 0, failed: 1 })
      yield* Effect.flip(passAt("2030-01-05T03:00:00Z", Story.nobodysTerm))
      expect(yield* history).toEqual([])
    })
  )

  story("says of a job that a program asked for that code did, and keeps what cannot be stored out", () =>
    Effect.gen(function* () {
      yield* create()
      yield* trigger("nightly")
      yield* trigger("nightly", `n\u0000${"x".repeat(500)}`)
      const [odd, plain] = yield* history
      expect(plain).toMatchObject({ by: "code" })
      expect(odd).toMatchObject({ by: `n\ufffd${"x".repeat(98)}` })
    })
  )
})

everywhere("a schedule that is triggered", (story) => {
  story("becomes a job at once, also while it is disabled, and keeps its next time", () =>
    Effect.gen(function* () {
      yield* create({ enabled: false })
      yield* Story.stepTo("2030-01-01T01:00:00Z")
      const triggered = yield* trigger("nightly")
      const [job] = yield* jobs
      expect(job).toMatchObject({
        kind: "report",
        queue: "mail",
        meta: { schedule: "nightly", triggeredAt: "2030-01-01T01:00:00.000Z" }
      })
      expect(triggered).toMatchObject({
        lastJobId: job?.id,
        lastFireAt: Date.parse("2030-01-01T01:00Z"),
        nextFireAt: Date.parse("2030-01-01T03:00Z")
      })
      yield* trigger("nightly")
      expect(yield* jobs).toHaveLength(2)
    })
  )

  story("is refused while the job before is not over, where runs must not overlap", () =>
    Effect.gen(function* () {
      yield* create({ overlap: "skip" })
      yield* trigger("nightly")
      const [job] = yield* jobs
      expect(yield* Effect.flip(trigger("nightly"))).toMatchObject({ _tag: "PreviousRunActive", job: job?.id })
      expect(yield* jobs).toHaveLength(1)
    })
  )

  story("is not found where there is none", () =>
    Effect.gen(function* () {
      expect(yield* Effect.flip(trigger("nobody"))).toMatchObject({ _tag: "ScheduleNotFound", name: "nobody" })
    })
  )
})

onPostgres("a schedule that was written by hand", (story) => {
  const insert = (cron: string, timezone = "UTC") =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* sql`insert into nightshift.schedule (name, kind, payload, cron, timezone, created_at, updated_at)
        values ('nightly', 'report', '{}', ${cron}, ${timezone}, '2030-01-01', '2030-01-01')`
    })

  story("is given its next time at first sight, and does not fire", () =>
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
    story(`is switched off with the reason when it cannot fire: ${cron} ${timezone}`, () =>
      Effect.gen(function* () {
        const term = yield* elected
        yield* insert(cron, timezone)
        expect(yield* Scheduler.pass(term)).toEqual({ ...nothing, disabled: 1 })
        expect(yield* get()).toMatchObject({ enabled: false, lastError: expect.stringMatching(reason) })
        const schedules = yield* Schedules
        const refused = yield* Effect.flip(schedules.edit("nightly", { enabled: true }))
        expect(refused).toMatchObject({ _tag: "InvalidSchedule" })
        const mended = yield* schedules.edit("nightly", { enabled: true, cron: "0 4 * * *", timezone: "UTC" })
        expect(mended.after).toMatchObject({ enabled: true, lastError: undefined })
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
  story("store one job per tick, whoever fires, also with a leader that does not know its term is over", () =>
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
          [term, old, term, term, old].map((each) => Effect.exit(Scheduler.pass(each))),
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

  story("do not wait for a schedule that somebody holds in an open transaction", () =>
    Effect.gen(function* () {
      const term = yield* elected
      for (const name of ["a", "b", "c", "d", "e", "f"]) yield* create({ name, cron: "* * * * *" })
      const other = yield* TestDatabase.connection
      yield* Effect.promise(() => other.query("begin"))
      yield* Effect.promise(() => other.query("select from nightshift.schedule where name < 'e' for update"))
      yield* SteppableClock.advance("1 minute")
      expect(yield* Scheduler.pass(term)).toEqual({ ...nothing, fired: 2, superseded: 4 })
      yield* Effect.promise(() => other.query("rollback"))
      expect(yield* Scheduler.pass(term)).toEqual({ ...nothing, fired: 4 })
    }).pipe(Effect.scoped)
  )

  story("leave a schedule alone that an operator changes at the same moment, or fire what stood before", () =>
    Effect.gen(function* () {
      const term = yield* elected
      const schedules = yield* Schedules
      yield* create({ cron: "* * * * *" })
      for (let minute = 0; minute < 10; minute += 1) {
        yield* SteppableClock.advance("1 minute")
        const payload = { minute }
        yield* Effect.all([Scheduler.pass(term), schedules.edit("nightly", { payload })], { concurrency: "unbounded" })
        yield* Scheduler.pass(term)
      }
      expect(new Set(yield* ticks).size).toBe(10)
      expect(yield* jobs).toHaveLength(10)
    })
  )
})
