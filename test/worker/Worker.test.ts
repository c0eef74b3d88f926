import { describe, expect, it } from "@effect/vitest"
import { Context, Data, Duration, Effect, Ref, Schema, TestClock } from "effect"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Queue } from "../../src/queue/Queue.js"
import { TestShift } from "../../src/testing/TestShift.js"
import { waiting } from "../support/States.js"

const Flaky = Job.make("flaky", { payload: Schema.Struct({}) })
class Broken extends Data.TaggedError("Broken")<{ readonly message: string }> {}

/** Number of finalizer runs. */
class Cleaned extends Context.Tag("test/Cleaned")<Cleaned, Ref.Ref<number>>() {}

const failing = Handler.make(Flaky, () => new Broken({ message: "no luck" }))

const attemptsOf = (id: Parameters<(typeof TestShift.Service)["job"]>[0]) =>
  Effect.gen(function* () {
    const shift = yield* TestShift
    yield* shift.settle
    return (yield* shift.job(id)).attempt
  })

describe("a job that fails", () => {
  it.effect(
    "is retried after thirty seconds, two minutes, ten minutes and an hour, and dies at the fifth attempt",
    () =>
      Effect.gen(function* () {
        const shift = yield* TestShift
        const { id } = yield* Flaky.enqueue({})
        expect(yield* attemptsOf(id)).toBe(1)
        let attempt = 1
        for (const wait of ["30 seconds", "2 minutes", "10 minutes", "1 hour"] as const) {
          yield* TestClock.adjust(Duration.subtract(wait, "1 millis"))
          expect(yield* attemptsOf(id)).toBe(attempt)
          yield* TestClock.adjust("1 millis")
          attempt += 1
          expect(yield* attemptsOf(id)).toBe(attempt)
        }
        const job = yield* shift.job(id)
        expect(job).toMatchObject({ state: "dead", reason: "exhausted", attempt: 5, lastError: "Broken: no luck" })
        expect(job.history.map(({ outcome }) => outcome)).toEqual(["failed", "failed", "failed", "failed", "exhausted"])
      }).pipe(Effect.provide(TestShift.layer({ handlers: [failing] })))
  )

  it.effect("keeps the trace of a defect, and counts it", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Flaky.enqueue({})
      yield* shift.settle
      const job = yield* shift.job(id)
      expect(job).toMatchObject({ state: "retrying", attempt: 1 })
      expect(job.lastError).toMatch(/^Error: a bug\n {4}at /)
    }).pipe(
      Effect.provide(
        TestShift.layer({
          handlers: [
            Handler.make(Flaky, (): Effect.Effect<void> => {
              throw new Error("a bug")
            })
          ]
        })
      )
    )
  )

  it.effect("is retried when the handler says, if it sets a delay", () =>
    Effect.gen(function* () {
      const { id } = yield* Flaky.enqueue({})
      expect(yield* attemptsOf(id)).toBe(1)
      yield* TestClock.adjust("6 seconds")
      expect(yield* attemptsOf(id)).toBe(1)
      yield* TestClock.adjust("1 second")
      expect(yield* attemptsOf(id)).toBe(2)
    }).pipe(
      Effect.provide(
        TestShift.layer({
          handlers: [Handler.make(Flaky, () => Effect.succeed(Outcome.retry("later", Duration.seconds(7))))]
        })
      )
    )
  )
})

describe("an outcome", () => {
  const outcomes = Job.make("outcomes", { payload: Schema.Struct({ tag: Schema.String }) })
  const handler = Handler.make(outcomes, ({ tag }) =>
    Effect.succeed(
      tag === "result"
        ? { answer: 42 }
        : tag === "huge"
          ? "x".repeat(70_000)
          : tag === "dead"
            ? Outcome.dead("never")
            : tag === "snooze"
              ? Outcome.snooze(Duration.minutes(1))
              : tag === "snooze none"
                ? Outcome.snooze(-5)
                : tag === "throttled none"
                  ? Outcome.throttled({ after: 0, scope: "job" })
                  : tag === "throttled"
                    ? Outcome.throttled({ after: Duration.seconds(10), scope: "job" })
                    : tag === "cancelled"
                      ? Outcome.cancelled
                      : Outcome.done()
    )
  )

  it.effect("decides the job's next state", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const run = (tag: string) =>
        Effect.gen(function* () {
          const { id } = yield* outcomes.enqueue({ tag })
          yield* shift.settle
          return yield* shift.job(id)
        })
      expect(yield* run("done")).toMatchObject({ state: "done", result: undefined, attempt: 1 })
      expect(yield* run("result")).toMatchObject({ state: "done", result: { answer: 42 } })
      expect(yield* run("huge")).toMatchObject({
        state: "dead",
        reason: "rejected",
        attempt: 1,
        lastError: expect.stringMatching(/^its result must be at most 65536 bytes as JSON, got \d+$/)
      })
      expect(yield* run("dead")).toMatchObject({ state: "dead", reason: "rejected", lastError: "never" })
      expect(yield* run("snooze")).toMatchObject({ state: "scheduled", attempt: 0, runAt: 60_000 })
      expect(yield* run("snooze none")).toMatchObject({ state: "scheduled", attempt: 0, runAt: 1_000 })
      expect(yield* run("throttled none")).toMatchObject({ state: "scheduled", attempt: 0, runAt: 1_000 })
      expect(yield* run("throttled")).toMatchObject({ state: "scheduled", attempt: 0, runAt: 10_000 })
      expect(yield* run("cancelled")).toMatchObject({ state: "cancelled", reason: "cancelled" })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [handler] })))
  )
})

describe("a run that takes too long", () => {
  const Slow = Job.make("slow", { payload: Schema.Struct({}), timeout: "1 minute" })

  it.effect("is interrupted, its finalizers run, and it counts as an attempt", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const cleaned = yield* Cleaned
      const { id } = yield* Slow.enqueue({})
      yield* shift.advance("59 seconds")
      expect(yield* shift.job(id)).toMatchObject({ state: "running" })
      yield* shift.advance("1 second")
      expect(yield* shift.job(id)).toMatchObject({
        state: "retrying",
        attempt: 1,
        lastError: expect.stringContaining("timed out after 1m")
      })
      expect(yield* Ref.get(cleaned)).toBe(1)
    }).pipe(
      Effect.provide(
        TestShift.layer({
          handlers: [
            Handler.make(Slow, () =>
              Effect.flatMap(Cleaned, (ref) => Effect.onInterrupt(Effect.never, () => Ref.update(ref, (n) => n + 1)))
            )
          ]
        })
      ),
      Effect.provideServiceEffect(Cleaned, Ref.make(0))
    )
  )

  it.effect("ends after five seconds if its handler ignores the interruption, and its slot is replaced", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id: stubborn } = yield* Slow.enqueue({})
      yield* shift.advance("1 minute")
      expect(yield* shift.job(stubborn)).toMatchObject({ state: "running" })
      yield* shift.advance("5 seconds")
      expect(yield* shift.job(stubborn)).toMatchObject({
        state: "retrying",
        lastError: expect.stringContaining("timed out after 1m")
      })
      const { id: next } = yield* Flaky.enqueue({}, { queue: "default" })
      yield* shift.settle
      expect(yield* shift.job(next)).toMatchObject({ attempt: 1 })
    }).pipe(
      Effect.provide(
        TestShift.layer({
          slots: 1,
          handlers: [Handler.make(Slow, () => Effect.uninterruptible(Effect.sleep("10 hours"))), failing]
        })
      )
    )
  )
})

describe("a running job that no longer belongs to this pod", () => {
  const Long = Job.make("long", { payload: Schema.Struct({}) })
  const layer = TestShift.layer({
    handlers: [
      Handler.make(Long, () =>
        Effect.flatMap(Cleaned, (ref) => Effect.onInterrupt(Effect.never, () => Ref.update(ref, (n) => n + 1)))
      )
    ]
  })

  it.effect("is stopped at once when it is cancelled, and is not retried", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Long.enqueue({})
      yield* shift.settle
      expect(yield* Effect.flatMap(JobAdmin, (jobAdmin) => jobAdmin.cancel(id))).toMatchObject({ state: "running" })
      yield* shift.settle
      expect(yield* shift.job(id)).toMatchObject({ state: "cancelled", reason: "cancelled" })
      expect(yield* Effect.flatMap(Cleaned, Ref.get)).toBe(1)
    }).pipe(Effect.provide(layer), Effect.provideServiceEffect(Cleaned, Ref.make(0)))
  )

  it.effect("is stopped when its lease moved to a newer run, which continues unaffected", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Long.enqueue({})
      yield* shift.advance("1 second")
      const queue = yield* Queue
      expect(yield* queue.recoverStuck(Duration.zero)).toMatchObject({ rescued: 1 })
      yield* shift.settle
      const newer = yield* shift.job(id)
      expect(newer).toMatchObject({ state: "running", attempt: 1, crashCount: 1 })
      yield* shift.advance("10 minutes")
      expect(yield* Effect.flatMap(Cleaned, Ref.get)).toBe(1)
      expect(yield* shift.job(id)).toMatchObject({ state: "running", startedAt: newer.startedAt })
    }).pipe(Effect.provide(layer), Effect.provideServiceEffect(Cleaned, Ref.make(0)))
  )
})

describe("a payload", () => {
  const V2 = Job.make("letter", {
    payload: Schema.Struct({ to: Schema.NonEmptyString }),
    version: 2,
    upcasters: { 1: (old) => ({ to: (old as { readonly address: string }).address }) }
  })
  const layer = TestShift.layer({ handlers: [Handler.make(V2, ({ to }) => Effect.succeed(to))], queues: ["default"] })
  const store = (kind: string, version: number, payload: unknown) =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const [answer] = yield* queue.enqueue([{ kind, version, payload, queue: "default", attempts: 5 }])
      const shift = yield* TestShift
      yield* shift.settle
      return answer === undefined ? yield* Effect.dieMessage("no answer") : answer.id
    })

  it.effect("of an older version is migrated to the current one", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const id = yield* store("letter", 1, { address: "Ghent" })
      expect(yield* shift.job(id)).toMatchObject({ state: "done", result: "Ghent" })
    }).pipe(Effect.provide(layer))
  )

  it.effect("that no version can decode makes the job dead without using an attempt, and can be requeued", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const id = yield* store("letter", 2, { to: "" })
      expect(yield* shift.job(id)).toMatchObject({
        state: "dead",
        reason: "undecodable",
        attempt: 0,
        payload: { to: "" }
      })
      expect(yield* Effect.flatMap(JobAdmin, (jobAdmin) => jobAdmin.requeue(id))).toMatchObject({ state: "pending" })
    }).pipe(Effect.provide(layer))
  )

  it.effect("of a newer version or an unknown kind waits for another pod, without using an attempt", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const newer = yield* store("letter", 3, { to: "Ghent" })
      const unknown = yield* store("parcel", 1, {})
      yield* shift.settle
      for (const id of [newer, unknown]) {
        expect(yield* shift.job(id)).toMatchObject({ state: "retrying", attempt: 0, runAt: 500 })
      }
    }).pipe(Effect.provide(layer))
  )
})

describe("a job of a kind unknown to this pod", () => {
  it.effect("is retried within half a minute, even if it was stored more than a day before it was due", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const queue = yield* Queue
      const stray = { kind: "stray", version: 1, queue: "default", payload: {}, attempts: 3 }
      const [answer] = yield* queue.enqueue([{ ...stray, runAt: Duration.toMillis("25 hours") }])
      if (answer === undefined) return yield* Effect.dieMessage("one was stored")
      yield* TestClock.setTime(Duration.toMillis("25 hours"))
      yield* shift.settle
      expect(yield* shift.job(answer.id)).toMatchObject({ state: waiting, attempt: 0, reason: undefined })
      expect((yield* shift.job(answer.id)).lastError).toContain('no handler for the kind "stray"')
      yield* shift.advance("1 minute")
      const { runAt, state } = yield* shift.job(answer.id)
      expect(state).toEqual(waiting)
      expect(runAt - (Duration.toMillis("25 hours") + 60_000)).toBeLessThanOrEqual(30_000)
    }).pipe(Effect.provide(TestShift.layer<never>({ handlers: [], queues: ["default"] })))
  )
})

describe("a promise handler", () => {
  it.effect("returns its result, and fails with what it throws", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id: good } = yield* Flaky.enqueue({}, { meta: { good: true } })
      const { id: bad } = yield* Flaky.enqueue({})
      yield* shift.settle
      expect(yield* shift.job(good)).toMatchObject({ state: "done", result: { attempt: 1 } })
      expect(yield* shift.job(bad)).toMatchObject({
        state: "retrying",
        lastError: expect.stringMatching(/^thrown\n {4}at .*Worker\.test\.ts/)
      })
    }).pipe(
      Effect.provide(
        TestShift.layer({
          handlers: [
            Handler.promise(Flaky, async (_, job) => {
              if (job.meta === undefined) throw new Error("thrown")
              return { attempt: job.attempt }
            })
          ]
        })
      )
    )
  )
})
