import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, FiberId, Schema } from "effect"
import { Hints } from "../../src/database/Hints.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as NoopEcho from "../../src/handlers/NoopEcho.js"
import * as Job from "../../src/queue/Job.js"
import { cancelTopic, JobAdmin } from "../../src/queue/JobAdmin.js"
import { type HeldJob, Queue } from "../../src/queue/Queue.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import * as StepClock from "../support/StepClock.js"
import * as TestCluster from "./TestCluster.js"

const Long = Job.make("long", { payload: Schema.Struct({}) })
const Deaf = Job.make("deaf", { payload: Schema.Struct({}) })

/** Its finalizer takes two seconds. */
const tidyHandler = (cleaned: () => void) =>
  Handler.make(Long, () =>
    Effect.onInterrupt(Effect.never, () => Effect.zipRight(Effect.sleep("2 seconds"), Effect.sync(cleaned)))
  )
const deafHandler = Handler.make(Deaf, () => Effect.uninterruptible(Effect.sleep("1 hour")))

const Pay = Job.make("pay", { payload: Schema.Struct({}), timeout: "2 seconds" })
const payHandler = Handler.make(Pay, () => Effect.uninterruptible(Effect.as(Effect.sleep("3 seconds"), { paid: 1 })))

const First = Job.make("first", { payload: Schema.Struct({}), timeout: "1 second" })
const Second = Job.make("second", { payload: Schema.Struct({}) })

/** Starts a pod with one slot, and returns a first job that runs and a second one that the pod has claimed ahead. */
const inLine = (first: Effect.Effect<void>) =>
  Effect.gen(function* () {
    const fibers: Array<string> = []
    const noted = (work: Effect.Effect<void>) =>
      Effect.zipRight(
        Effect.map(Effect.fiberId, (id) => void fibers.push(FiberId.threadName(id))),
        work
      )
    yield* TestCluster.hire({
      slots: 1,
      handlers: [
        NoopEcho.handler,
        Handler.make(First, () => noted(first)),
        Handler.make(Second, () => noted(Effect.sleep("1 second")))
      ]
    })
    // So fast that the pod claims a hundred jobs ahead.
    for (let n = 0; n < 200; n += 1) yield* NoopEcho.NoopEcho.enqueue({ sleep_ms: 1 })
    const { id } = yield* First.enqueue({})
    const { id: next } = yield* Second.enqueue({})
    yield* StepClock.advance("205 millis")
    expect([(yield* job(id)).state, (yield* job(next)).state]).toEqual(["running", "running"])
    expect(fibers).toHaveLength(1)
    return { id, next, fibers }
  })

const job = (id: Parameters<(typeof JobSearch.Service)["get"]>[0]) =>
  Effect.flatMap(JobSearch, (search) => search.get(id))

describe("cancelling a running job", () => {
  it.scopedLive("is requested at once, and completes when the handler's finalizers have run", () =>
    Effect.gen(function* () {
      let cleaned = 0
      const jobAdmin = yield* JobAdmin
      yield* TestCluster.hire({ handlers: [tidyHandler(() => (cleaned += 1))] })
      const { id } = yield* Long.enqueue({})
      yield* StepClock.advance("500 millis")
      expect(yield* jobAdmin.cancel(id)).toMatchObject({ state: "running", cancelRequestedAt: 500 })
      yield* StepClock.advance("1 second")
      expect(yield* job(id)).toMatchObject({ state: "running", cancelRequestedAt: 500 })
      yield* StepClock.advance("1 second")
      expect(cleaned).toBe(1)
      expect(yield* job(id)).toMatchObject({
        state: "cancelled",
        reason: "cancelled",
        finishedAt: 2_500,
        history: [{ outcome: "cancelled" }]
      })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("keeps the result of a handler that succeeds anyway, and records that the cancel came too late", () =>
    Effect.gen(function* () {
      const jobAdmin = yield* JobAdmin
      yield* TestCluster.hire({ handlers: [payHandler] })
      const { id } = yield* Pay.enqueue({})
      yield* StepClock.advance("1 second")
      expect(yield* jobAdmin.cancel(id)).toMatchObject({ state: "running", cancelRequestedAt: 1_000 })
      yield* StepClock.advance("2 seconds")
      expect(yield* job(id)).toMatchObject({
        state: "done",
        result: { paid: 1 },
        reason: undefined,
        finishedAt: 3_000,
        history: [{ outcome: "done", message: "a cancel was requested too late: the handler succeeded" }]
      })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("keeps the result of a handler that succeeds anyway after its timeout", () =>
    Effect.gen(function* () {
      yield* TestCluster.hire({ handlers: [payHandler] })
      const { id } = yield* Pay.enqueue({})
      yield* StepClock.advance("4 seconds")
      expect(yield* job(id)).toMatchObject({ state: "done", result: { paid: 1 }, attempt: 1, history: [] })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("abandons a handler that does not stop, logs and counts it, and replaces its slot", () =>
    Effect.gen(function* () {
      const jobAdmin = yield* JobAdmin
      const pod = yield* TestCluster.hire({ slots: 1, handlers: [deafHandler, NoopEcho.handler] })
      const { id } = yield* Deaf.enqueue({})
      const { id: next } = yield* NoopEcho.NoopEcho.enqueue({})
      yield* StepClock.advance("1 second")
      yield* jobAdmin.cancel(id)
      yield* StepClock.advance("4 seconds")
      expect(yield* job(id)).toMatchObject({ state: "running" })
      yield* StepClock.advance("1 second")
      expect(yield* job(id)).toMatchObject({
        state: "cancelled",
        reason: "cancelled",
        history: [{ outcome: "abandoned" }]
      })
      expect(yield* pod.metrics).toContain('nightshift_slots_abandoned_total{queue="default"} 1')
      yield* StepClock.advance("1 second")
      expect(yield* job(next)).toMatchObject({ state: "done" })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("does not wait behind prefetched jobs", () =>
    Effect.gen(function* () {
      const jobAdmin = yield* JobAdmin
      yield* TestCluster.hire({ slots: 1 })
      for (let n = 0; n < 1_000; n += 1) yield* NoopEcho.NoopEcho.enqueue({ sleep_ms: 1 })
      const { id: blocking } = yield* NoopEcho.NoopEcho.enqueue({ sleep_ms: 60_000 })
      const { id: waiting } = yield* NoopEcho.NoopEcho.enqueue({})
      yield* StepClock.advance("1005 millis")
      expect([(yield* job(blocking)).state, (yield* job(waiting)).state]).toEqual(["running", "running"])
      yield* jobAdmin.cancel(waiting)
      yield* StepClock.advance("1 millis")
      expect(yield* job(waiting)).toMatchObject({ state: "cancelled", reason: "cancelled" })
      expect(yield* job(blocking)).toMatchObject({ state: "running" })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("is noticed at the heartbeat when the notification was lost", () =>
    Effect.gen(function* () {
      const jobAdmin = yield* JobAdmin
      const pod = yield* TestCluster.hire({ handlers: [tidyHandler(() => {})] })
      const { id } = yield* Long.enqueue({})
      yield* StepClock.advance("1 second")
      pod.connected(false)
      yield* jobAdmin.cancel(id)
      yield* StepClock.advance("1 second")
      pod.connected(true)
      yield* StepClock.advance("12 seconds")
      expect(yield* job(id)).toMatchObject({ state: "cancelled", reason: "cancelled" })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("is checked in the database before a notification is acted on", () =>
    Effect.gen(function* () {
      const hints = yield* Hints
      yield* TestCluster.hire({ handlers: [tidyHandler(() => {})] })
      const { id } = yield* Long.enqueue({})
      yield* StepClock.advance("1 second")
      for (const said of [id, "", "no id", "'; drop table job"]) yield* hints.publish(cancelTopic, said)
      yield* StepClock.advance("11 seconds")
      expect(yield* job(id)).toMatchObject({ state: "running", cancelRequestedAt: undefined })
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("a handler that ends in the instant in which its slot is stopped", () => {
  it.scopedLive("because of a cancel does not pass the interrupt to the next job", () =>
    Effect.gen(function* () {
      const jobAdmin = yield* JobAdmin
      const queue = yield* Queue
      const gate = yield* Deferred.make<void>()
      const heartbeat = (held: ReadonlyArray<HeldJob>) =>
        Effect.tap(queue.heartbeat(held), ({ cancelRequested }) =>
          cancelRequested.length === 0 ? Effect.void : Deferred.succeed(gate, undefined)
        )
      const { fibers, id, next } = yield* inLine(Deferred.await(gate)).pipe(
        Effect.provideService(Queue, { ...queue, heartbeat })
      )
      yield* jobAdmin.cancel(id)
      yield* StepClock.advance("2 seconds")
      expect(yield* job(id)).toMatchObject({
        state: "done",
        history: [{ outcome: "done", message: "a cancel was requested too late: the handler succeeded" }]
      })
      expect(yield* job(next)).toMatchObject({ state: "done", attempt: 1, history: [] })
      // The slot was stopped, and another one ran the second job.
      expect(new Set(fibers).size).toBe(2)
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("because of its timeout does not pass the interrupt to the next job", () =>
    Effect.gen(function* () {
      const states: Array<string> = []
      // The turns of the scheduler between the deadline and the end of the handler: one of them is that of the stop.
      for (let turns = 0; turns < 8; turns += 1) {
        const late = Effect.zipRight(Effect.sleep("1 second"), Effect.replicateEffect(Effect.yieldNow(), turns))
        const state = Effect.gen(function* () {
          const { fibers, id, next } = yield* inLine(Effect.asVoid(late))
          yield* StepClock.advance("3 seconds")
          expect(yield* job(next)).toMatchObject({ state: "done", attempt: 1, history: [] })
          return `${(yield* job(id)).state} ${new Set(fibers).size}`
        })
        states.push(yield* Effect.provide(Effect.scoped(state), TestCluster.layer))
      }
      // In time, in the instant of the stop, and interrupted.
      expect([...new Set(states)]).toEqual(["done 1", "done 2", "retrying 2"])
    })
  )
})
