import { expect } from "@effect/vitest"
import { Effect } from "effect"
import * as Scheduler from "../../src/crew/loops/Scheduler.js"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { JobAdmin } from "../../src/queue/admin/JobAdmin.js"
import { Queue } from "../../src/queue/Queue.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as Story from "./SchedulerStories.js"

const { create, elected, everywhere, get, jobs, nothing, passAt, ticks } = Story

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
      if (job !== undefined) yield* Effect.flatMap(JobAdmin, (jobAdmin) => jobAdmin.cancel(job.id))
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
      if (job !== undefined) yield* Effect.flatMap(JobAdmin, (jobAdmin) => jobAdmin.remove(job.id))
      expect(yield* passAt("2030-01-02T03:00:00Z", term)).toEqual({ ...nothing, fired: 1 })
    })
  )
})
