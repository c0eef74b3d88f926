import { describe, expect, it } from "@effect/vitest"
import { Clock, Duration, Effect, Schema, TestClock } from "effect"
import * as FastCheck from "effect/FastCheck"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import { MinuteBuckets } from "../../src/history/MinuteBuckets.js"
import * as Job from "../../src/queue/Job.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Queue } from "../../src/queue/Queue.js"
import { type JobCounts, noCounts } from "../../src/telemetry/BucketCount.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { TestShift } from "../../src/testing/TestShift.js"

// Compares counters with the runs that handlers saw and the final rows of the table.

const Act = Schema.Literal("done", "result", "fail", "die", "snooze", "throttle", "defect", "hang", "slow", "falter")
const Scripted = Job.make("scripted", {
  payload: Schema.Struct({ acts: Schema.Array(Act) }),
  queue: "stage",
  timeout: "20 seconds",
  attempts: 3
})

const perform = (act: typeof Act.Type | undefined): Effect.Effect<unknown, string> => {
  switch (act) {
    case "result":
      return Effect.succeed({ answer: 42 })
    case "fail":
      return Effect.fail("no luck")
    case "die":
      return Effect.succeed(Outcome.dead("never"))
    case "snooze":
      return Effect.succeed(Outcome.snooze(Duration.seconds(90)))
    case "throttle":
      return Effect.succeed(Outcome.throttled({ after: Duration.seconds(30) }))
    case "defect":
      return Effect.dieMessage("a bug")
    case "hang":
      return Effect.never
    case "slow":
      return Effect.sleep("3 seconds")
    case "falter":
      return Effect.delay(Effect.fail("no luck after all"), "3 seconds")
    default:
      return Effect.void
  }
}

/** A handler that follows its script, one outcome per run, and counts its runs. */
const stage = () => {
  const runs = new Map<string, number>()
  const handler = Handler.make(Scripted, ({ acts }, job) =>
    Effect.suspend(() => {
      const run = runs.get(job.id) ?? 0
      runs.set(job.id, run + 1)
      return perform(acts[run])
    })
  )
  return { handler, runs: () => [...runs.values()].reduce((sum, count) => sum + count, 0) }
}

const sum = (all: ReadonlyArray<JobCounts>): JobCounts =>
  all.reduce(
    (total, each) => ({
      enqueued: total.enqueued + each.enqueued,
      started: total.started + each.started,
      completed: total.completed + each.completed,
      retried: total.retried + each.retried,
      dead: total.dead + each.dead,
      cancelled: total.cancelled + each.cancelled,
      rescued: total.rescued + each.rescued
    }),
    noCounts
  )

/** All counts, once they are written. */
const counted = Effect.gen(function* () {
  const buckets = yield* MinuteBuckets
  const shift = yield* TestShift
  yield* shift.advance("3 seconds")
  return sum(yield* buckets.totals({ from: 0, to: (yield* Clock.currentTimeMillis) + 60_000 }))
})

const scripts = FastCheck.array(FastCheck.array(FastCheck.constantFrom(...Act.literals), { maxLength: 4 }), {
  minLength: 1,
  maxLength: 12
})

describe("the counters of a pod", () => {
  for (const [index, script] of FastCheck.sample(scripts, { numRuns: 8, seed: 20 }).entries()) {
    it.effect(`match the actual outcomes, in run ${index + 1}`, () => {
      const { handler, runs } = stage()
      return Effect.gen(function* () {
        const shift = yield* TestShift
        yield* Effect.forEach(script, (acts, place) => Scripted.enqueue({ acts }, { dedupe: `${place % 5}` }))
        yield* shift.drain
        const jobs = yield* shift.jobs
        const ended = (state: string) => jobs.filter((job) => job.state === state).length
        expect(yield* counted).toEqual({
          enqueued: jobs.length,
          started: runs(),
          completed: ended("done"),
          dead: ended("dead"),
          cancelled: ended("cancelled"),
          retried: runs() - jobs.length,
          rescued: 0
        })
      }).pipe(Effect.provide(TestShift.layer({ handlers: [handler] })))
    })
  }

  it.effect("include jobs that died without a handler, and their follow-up jobs", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const queue = yield* Queue
      const jobAdmin = yield* JobAdmin
      const onDead = { kind: "scripted", version: 1, queue: "stage", payload: { acts: [] }, attempts: 1 }
      const job = { kind: "scripted", version: 1, queue: "stage", attempts: 3 }
      yield* queue.enqueue([{ ...job, payload: "not a script", onDead }])
      const [cancelled] = yield* queue.enqueue([{ ...job, payload: { acts: [] }, runAt: 3_600_000 }])
      if (cancelled !== undefined) yield* jobAdmin.cancel(cancelled.id)
      yield* shift.drain
      expect(yield* counted).toEqual({ ...noCounts, enqueued: 3, started: 1, completed: 1, dead: 1, cancelled: 1 })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [stage().handler] })))
  )

  it.effect("count a job that is cancelled while it runs once, and not as dead", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const jobAdmin = yield* JobAdmin
      const ids = (yield* Scripted.enqueueMany([{ acts: ["slow"] }, { acts: ["falter"] }])).map(({ id }) => id)
      yield* shift.settle
      yield* Effect.forEach(ids, jobAdmin.cancel)
      yield* shift.drain
      const ended = yield* Effect.forEach(ids, shift.job)
      expect(ended.map(({ state }) => state)).toEqual(["cancelled", "cancelled"])
      expect(yield* counted).toEqual({ ...noCounts, enqueued: 2, started: 2, cancelled: 2 })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [stage().handler] })))
  )

  it.effect("of a test include what a pod counted before it was killed", () => {
    const { handler, runs } = stage()
    return Effect.gen(function* () {
      const shift = yield* TestShift
      yield* Scripted.enqueue({ acts: [] })
      yield* shift.advance("2 seconds")
      const [hung, lost] = [yield* Scripted.enqueue({ acts: ["hang"] }), yield* Scripted.enqueue({ acts: [] })]
      yield* shift.advance("1999 millis")
      expect((yield* shift.job(lost.id)).state).toBe("done")
      yield* shift.crashPod
      yield* shift.advance("2 hours")
      yield* shift.drain
      expect((yield* shift.job(hung.id)).state).toBe("done")
      // A test writes counts when it settles, where a pod in production loses what it counted since its last flush.
      expect(runs()).toBe(4)
      expect(yield* counted).toEqual({ ...noCounts, enqueued: 3, started: 4, completed: 3, rescued: 1 })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [handler] })))
  })

  it.effect("record run durations and latencies from the due time", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const buckets = yield* MinuteBuckets
      const metrics = yield* Metrics
      yield* Scripted.enqueue({ acts: ["slow"] })
      yield* Scripted.enqueue({ acts: ["slow"] })
      yield* TestClock.adjust("6 seconds")
      yield* shift.drain
      yield* counted
      const [point] = yield* buckets.series({ from: 0, to: 60_000, width: Duration.minutes(1), queue: "stage" })
      expect(point).toMatchObject({
        completed: 2,
        processing: { count: 2, sum: 6_000, max: 3_000 },
        total: { count: 2, sum: 9_000, max: 6_000 }
      })
      const text = yield* metrics.render
      expect(text).toContain('nightshift_jobs_enqueued_total{queue="stage",kind="scripted"} 2\n')
      expect(text).toContain('nightshift_jobs_completed_total{queue="stage",kind="scripted"} 2\n')
      expect(text).toContain('nightshift_job_duration_seconds_sum{queue="stage",kind="scripted"} 6\n')
    }).pipe(Effect.provide(TestShift.layer({ handlers: [stage().handler], slots: 1 })))
  )
})
