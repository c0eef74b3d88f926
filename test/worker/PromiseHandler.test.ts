import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, Schema, TestClock } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { TestShift } from "../../src/testing/TestShift.js"

const Call = Job.make("call", { payload: Schema.Struct({}), timeout: "1 minute" })

/** Promises that the test resolves and that ignore their AbortSignal. */
const makeStubborn = () => {
  const running: Array<{ readonly settle: (result?: unknown) => void; readonly signal: AbortSignal }> = []
  const handler = Handler.promise(
    Call,
    (_, { signal }) => new Promise<unknown>((settle) => void running.push({ settle, signal }))
  )
  return { handler, running }
}

/** Promises that the test resolves and whose handler never reads its AbortSignal. */
const makeUnaware = () => {
  const running: Array<{ readonly settle: (result?: unknown) => void }> = []
  const handler = Handler.promise(Call, () => new Promise<unknown>((settle) => void running.push({ settle })))
  return { handler, running }
}

/** Two jobs of one key: the second may start only after the first has ended. */
const enqueueTwo = Effect.gen(function* () {
  const queues = yield* Queues
  const shift = yield* TestShift
  yield* queues.change("default", { perKey: { concurrency: 1, order: "strict" } })
  const { id: first } = yield* Call.enqueue({}, { key: "chat" })
  const { id: second } = yield* Call.enqueue({}, { key: "chat" })
  yield* shift.settle
  return { first, second }
})

const abandoned = Effect.map(
  Effect.flatMap(Metrics, (metrics) => metrics.render),
  (text) => /nightshift_slots_abandoned_total\{queue="default"\} (\d+)/.exec(text)?.[1]
)

describe("a promise handler that ignores a request to stop", () => {
  it.effect("keeps its job running until the promise settles, so that no other job of its key starts", () => {
    const { handler, running } = makeStubborn()
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { first, second } = yield* enqueueTwo
      yield* Effect.flatMap(JobAdmin, (jobAdmin) => jobAdmin.cancel(first))
      yield* shift.advance("4 seconds")
      expect(running.map(({ signal }) => signal.aborted)).toEqual([true])
      expect(yield* shift.job(first)).toMatchObject({ state: "running" })
      running[0]?.settle()
      yield* shift.settle
      expect(yield* shift.job(first)).toMatchObject({
        state: "done",
        history: [{ outcome: "done", message: "a cancel was requested too late: the handler succeeded" }]
      })
      expect(yield* shift.job(second)).toMatchObject({ state: "running" })
      expect(yield* abandoned).toBe("0")
    }).pipe(Effect.provide(TestShift.layer({ handlers: [handler] })))
  })

  it.effect("has timed out if it used its signal, because it may have returned early", () => {
    const { handler, running } = makeStubborn()
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { first } = yield* enqueueTwo
      yield* shift.advance("61 seconds")
      running[0]?.settle({ sent: 3 })
      yield* shift.settle
      expect(yield* shift.job(first)).toMatchObject({ state: "retrying", attempt: 1, result: undefined })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [handler] })))
  })

  it.effect("is done if it succeeds after its timeout and never read its signal", () => {
    const { handler, running } = makeUnaware()
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { first } = yield* enqueueTwo
      yield* shift.advance("61 seconds")
      running[0]?.settle({ sent: 3 })
      yield* shift.settle
      expect(yield* shift.job(first)).toMatchObject({ state: "done", result: { sent: 3 }, attempt: 1 })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [handler] })))
  })

  it.effect("is abandoned five seconds after it was cancelled, which is counted", () => {
    const { handler, running } = makeStubborn()
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { first, second } = yield* enqueueTwo
      yield* Effect.flatMap(JobAdmin, (jobAdmin) => jobAdmin.cancel(first))
      yield* shift.advance("4999 millis")
      expect(running).toHaveLength(1)
      yield* shift.advance("1 millis")
      expect(yield* shift.job(first)).toMatchObject({ reason: "cancelled", history: [{ outcome: "abandoned" }] })
      expect(yield* shift.job(second)).toMatchObject({ state: "running" })
      expect(yield* abandoned).toBe("1")
    }).pipe(Effect.provide(TestShift.layer({ handlers: [handler] })))
  })

  it.effect("is abandoned five seconds after it timed out, which is counted", () => {
    const { handler, running } = makeStubborn()
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { first } = yield* enqueueTwo
      yield* shift.advance("64 seconds")
      expect(running.map(({ signal }) => signal.aborted)).toEqual([true])
      expect(yield* shift.job(first)).toMatchObject({ state: "running" })
      yield* shift.advance("1 second")
      expect(yield* shift.job(first)).toMatchObject({
        state: "retrying",
        lastError: expect.stringContaining("timed out after 1m"),
        history: [{ outcome: "abandoned" }]
      })
      expect(yield* abandoned).toBe("1")
    }).pipe(Effect.provide(TestShift.layer({ handlers: [handler] })))
  })

  it.effect("delays a stopping pod by five seconds, then its job returns to the queue", () => {
    const { handler, running } = makeStubborn()
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { first } = yield* enqueueTwo
      const stopping = yield* Effect.fork(shift.stopPod)
      yield* shift.settle
      yield* TestClock.adjust("29 seconds")
      yield* shift.settle
      expect(running.map(({ signal }) => signal.aborted)).toEqual([true])
      expect(yield* shift.job(first)).toMatchObject({ state: "running" })
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(stopping)
      expect(yield* shift.job(first)).toMatchObject({
        state: "pending",
        attempt: 0,
        history: [{ outcome: "abandoned" }]
      })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [handler] })))
  })
})
