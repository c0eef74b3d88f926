import { expect } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Queue } from "../../src/queue/Queue.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { waiting } from "../support/States.js"
import * as Story from "./SchedulerStories.js"

const { create, elected, everywhere, get, jobs, nothing, pass, passAt, ticks } = Story

/** A queue that fails every enqueue. */
const queueAway = Effect.map(Queue, (queue) => {
  const away = new DatabaseUnavailable({ detail: "cut on purpose", nothingWritten: true })
  return Queue.of({ ...queue, enqueue: () => away })
})

everywhere("a schedule that is due", (story) => {
  story("becomes a job with its schedule and tick, routed by its kind's registration", () =>
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
        attempts: 7,
        payload: { day: "yesterday" },
        state: waiting,
        dedupe: { key: "schedule:nightly:2030-01-01T03:00:00.000Z", scope: "retained" },
        meta: { schedule: "nightly", tick: "2030-01-01T03:00:00.000Z" }
      })
      expect(yield* get()).toMatchObject({
        lastFireAt: Date.parse("2030-01-01T03:00Z"),
        nextFireAt: Date.parse("2030-01-02T03:00Z"),
        lastJobId: job?.id
      })
      expect(yield* pass(term)).toEqual(nothing)
      const metrics = yield* Effect.flatMap(Metrics, ({ render }) => render)
      expect(metrics).toContain('nightshift_schedule_last_fire_timestamp_seconds{schedule="nightly"} 1893466800')
    })
  )

  story("uses its own queue and attempts when set", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ queue: "slow", attempts: 2 })
      yield* passAt("2030-01-01T03:00:00Z", term)
      expect(yield* jobs).toMatchObject([{ queue: "slow", attempts: 2, version: 3 }])
    })
  )

  story("becomes a job even if its kind is not registered", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ kind: "unheard-of" })
      yield* passAt("2030-01-01T03:00:00Z", term)
      expect(yield* jobs).toMatchObject([{ kind: "unheard-of", queue: "default", version: 1 }])
    })
  )

  story("neither fires nor advances under an expired term", () =>
    Effect.gen(function* () {
      yield* elected
      yield* create()
      const over = yield* Effect.flip(passAt("2030-01-01T03:00:00Z", Story.nobodysTerm))
      expect(over).toMatchObject({ _tag: "TermEnded" })
      expect(yield* jobs).toEqual([])
      expect(yield* get()).toMatchObject({ nextFireAt: Date.parse("2030-01-01T03:00Z"), lastFireAt: undefined })
    })
  )

  story("fires once when two pods fire it in the same term", () =>
    Effect.gen(function* () {
      const term = yield* elected
      for (const name of ["a", "b", "c"]) yield* create({ name })
      yield* Story.stepTo("2030-01-01T03:00:00Z")
      const reports = yield* Effect.all([pass(term), pass(term), pass(term)], {
        concurrency: "unbounded"
      })
      expect(reports.reduce((fired, report) => fired + report.fired, 0)).toBe(3)
      expect(yield* jobs).toHaveLength(3)
    })
  )

  story("stays due when its job could not be stored, and fires in the next pass", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create()
      const failing = yield* queueAway
      const report = yield* Effect.provideService(passAt("2030-01-01T03:00:00Z", term), Queue, failing)
      expect(report).toEqual({ ...nothing, failed: 1 })
      expect(yield* get()).toMatchObject({
        paused: false,
        nextFireAt: Date.parse("2030-01-01T03:00Z"),
        lastFireAt: undefined,
        lastError: undefined
      })
      expect(yield* pass(term)).toEqual({ ...nothing, fired: 1 })
      expect(yield* ticks).toEqual(["2030-01-01T03:00:00.000Z"])
    })
  )

  story("fires once even if the confirmation of its job is lost", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create()
      const queue = yield* Queue
      const lost = new DatabaseUnavailable({ detail: "lost on purpose", nothingWritten: false })
      const forgetful = Queue.of({ ...queue, enqueue: (jobs) => Effect.zipRight(queue.enqueue(jobs), lost) })
      yield* Effect.provideService(passAt("2030-01-01T03:00:00Z", term), Queue, forgetful)
      expect(yield* pass(term)).toEqual({ ...nothing, fired: 1 })
      expect(yield* ticks).toEqual(["2030-01-01T03:00:00.000Z"])
    })
  )

  story("does not wait for another schedule that fails before it", () =>
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
      expect(yield* get("a")).toMatchObject({ paused: false, nextFireAt: Date.parse("2030-01-01T03:00Z") })
    })
  )
})

everywhere("ticks that were missed for days", (story) => {
  const days = (missed: Parameters<typeof create>[0], instant = "2030-01-05T09:00:00Z") =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create(missed)
      const report = yield* passAt(instant, term)
      expect(yield* pass(term)).toEqual(nothing)
      return report
    })

  story("are caught up by one job, for the latest", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: "one" })).toEqual({ ...nothing, fired: 1, missed: 1 })
      expect(yield* ticks).toEqual(["2030-01-05T03:00:00.000Z"])
      expect(yield* get()).toMatchObject({ nextFireAt: Date.parse("2030-01-06T03:00Z") })
    })
  )

  story("are caught up one by one with missed: all", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: { all: 10 } })).toEqual({ ...nothing, fired: 5 })
      expect(yield* ticks).toEqual([1, 2, 3, 4, 5].map((day) => `2030-01-0${day}T03:00:00.000Z`))
      expect(yield* get()).toMatchObject({
        lastFireAt: Date.parse("2030-01-05T03:00Z"),
        nextFireAt: Date.parse("2030-01-06T03:00Z")
      })
    })
  )

  story("are caught up to the limit, keeping the latest", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: { all: 2 } })).toEqual({ ...nothing, fired: 2, missed: 1 })
      expect(yield* ticks).toEqual(["2030-01-04T03:00:00.000Z", "2030-01-05T03:00:00.000Z"])
    })
  )

  story("are caught up to a thousand, however many there were", () =>
    Effect.gen(function* () {
      expect(yield* days({ cron: "* * * * * *", missed: { all: 1_000 } })).toMatchObject({ fired: 1_000 })
      expect((yield* ticks).at(0)).toBe("2030-01-05T08:43:21.000Z")
      expect((yield* ticks).at(-1)).toBe("2030-01-05T09:00:00.000Z")
    })
  )

  story("are dropped with missed: none", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: "none" })).toEqual({ ...nothing, missed: 1 })
      expect(yield* jobs).toEqual([])
      expect(yield* get()).toMatchObject({ nextFireAt: Date.parse("2030-01-06T03:00Z"), lastFireAt: undefined })
    })
  )

  story("are dropped, except one that is only as late as a leader failover makes it", () =>
    Effect.gen(function* () {
      expect(yield* days({ missed: "none" }, "2030-01-05T03:00:20Z")).toMatchObject({ fired: 1 })
      expect(yield* ticks).toEqual(["2030-01-05T03:00:00.000Z"])
    })
  )
})

everywhere("a schedule whose runs must not overlap", (story) => {
  story("skips a tick while the previous job is unfinished, and records it", () =>
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

  story("fires the first of several missed ticks, and skips the rest", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ overlap: "skip", missed: { all: 10 } })
      expect(yield* passAt("2030-01-03T09:00:00Z", term)).toEqual({ ...nothing, fired: 1, skipped: 2 })
      expect(yield* ticks).toEqual(["2030-01-01T03:00:00.000Z"])
    })
  )

  story("fires when the previous job was deleted", () =>
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

everywhere("more schedules than a pass reads that cannot fire", (story) => {
  story("do not hold up the others, and are logged together", () =>
    Effect.gen(function* () {
      const said: Array<string> = []
      const logger = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ message }) => void said.push(String(message)))
      )
      const term = yield* elected
      const queues = yield* Queues
      yield* queues.declare(["mail"])
      yield* queues.change("mail", { depthCap: 1 })
      for (let n = 100; n < 220; n += 1) yield* create({ name: `stuck-${n}` })
      yield* create({ name: "free", queue: "other", cron: "1 3 * * *" })
      yield* passAt("2030-01-01T03:01:00Z", term).pipe(Effect.provide(logger))
      const fired = (yield* jobs).map(({ queue }) => queue)
      // The first ones, which ran at once, filled the queue.
      expect(fired.length).toBeLessThan(10)
      expect(fired).toContain("other")
      expect(yield* get("free")).toMatchObject({ lastFireAt: Date.parse("2030-01-01T03:01Z") })
      expect(said.filter((line) => line.includes("could not fire"))).toHaveLength(1)
    })
  )
})
