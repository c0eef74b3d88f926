import { describe, expect, it } from "@effect/vitest"
import { Effect, Record, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import { NoopEcho } from "../../src/handlers/NoopEcho.js"
import * as Job from "../../src/queue/Job.js"
import { Queue } from "../../src/queue/Queue.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as StepClock from "../support/StepClock.js"
import * as TestCluster from "./TestCluster.js"

const counts = Effect.gen(function* () {
  const search = yield* JobSearch
  const [queue] = yield* search.counts
  return queue === undefined ? undefined : Record.map(queue.counts, ({ value }) => value)
})

const enqueue = (count: number, sleepMillis: number) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const job = { kind: "noop_echo", version: 1, queue: "default", payload: { sleep_ms: sleepMillis }, attempts: 5 }
    yield* queue.enqueue(Array.from({ length: count }, () => job))
  })

/** Quick jobs that make the pod prefetch, then slow ones, so that it holds many prefetched jobs. */
const overladen = Effect.gen(function* () {
  yield* enqueue(1_000, 1)
  yield* enqueue(200, 30_000)
  yield* StepClock.advance("110 millis")
  const { pending = 0, running = 0 } = (yield* counts) ?? {}
  expect(running).toBeGreaterThan(50)
  return { unstarted: running - 10, pending }
})

describe("a pause", () => {
  it.scopedLive("returns prefetched jobs, lets running jobs finish, and starts none until it ends", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      yield* TestCluster.hire()
      yield* overladen
      yield* queues.change("default", { paused: true })
      yield* StepClock.advance("1 millis")
      expect(yield* counts).toMatchObject({ running: 10, pending: 190, done: 1_000 })
      const { jobs } = yield* Effect.flatMap(JobSearch, (search) => search.list({ state: "pending" }, { limit: 1 }))
      expect(jobs).toMatchObject([{ attempt: 0, crashCount: 0, lastError: undefined, history: [] }])
      yield* StepClock.advance("40 seconds")
      expect(yield* counts).toMatchObject({ running: 0, pending: 190, done: 1_010 })
      expect(yield* TestCluster.slots()).toEqual([0])
      yield* queues.change("default", { paused: false })
      yield* StepClock.advance("1 millis")
      expect(yield* counts).toMatchObject({ running: 10, pending: 180 })
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("a lower worker total", () => {
  it.scopedLive("retires the newest slots after their current job", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      yield* TestCluster.hire()
      yield* enqueue(30, 10_000)
      yield* StepClock.advance("2 seconds")
      yield* queues.change("default", { maxWorkers: 3 })
      yield* StepClock.advance("2 seconds")
      expect(yield* TestCluster.slots()).toEqual([10])
      expect(yield* counts).toMatchObject({ running: 10 })
      yield* StepClock.advance("8 seconds")
      expect(yield* TestCluster.slots()).toEqual([3])
      expect(yield* counts).toMatchObject({ running: 3, done: 10, pending: 17 })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("keeps retiring slots when raised again, and adds only the missing ones", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      yield* TestCluster.hire()
      yield* enqueue(30, 10_000)
      yield* StepClock.advance("2 seconds")
      yield* queues.change("default", { maxWorkers: 3 })
      yield* StepClock.advance("2 seconds")
      yield* queues.change("default", { maxWorkers: 12 })
      yield* StepClock.advance("2 seconds")
      expect(yield* counts).toMatchObject({ running: 12 })
      expect(yield* TestCluster.slots()).toEqual([12])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("returns prefetched jobs beyond what is needed", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      yield* TestCluster.hire()
      const { unstarted } = yield* overladen
      yield* queues.change("default", { maxWorkers: 5 })
      yield* StepClock.advance("1 millis")
      const { running = 0 } = (yield* counts) ?? {}
      expect(running).toBeLessThanOrEqual(10 + Math.ceil(unstarted / 2))
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("a job that was claimed and not started", () => {
  it.scopedLive("moves to a pod with a free slot within two ticks", () =>
    Effect.gen(function* () {
      yield* TestCluster.hire()
      yield* overladen
      yield* TestCluster.hire()
      yield* StepClock.advance("3 seconds")
      const search = yield* JobSearch
      const { jobs } = yield* search.list({ state: "running" }, { limit: 300 })
      const held = (pod: string) => jobs.filter((job) => job.pod === pod).length
      const [one = 0, two = 0] = [...new Set(jobs.map(({ pod }) => pod ?? ""))].map(held)
      // The first pod keeps the ten jobs it started, the second fills its five slots.
      expect([one, two].toSorted((a, b) => a - b)).toEqual([5, 10])
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("a slot whose job throws a value that cannot be formatted", () => {
  const Explosive = Job.make("explosive", {
    payload: Schema.transform(Schema.Unknown, Schema.Unknown, {
      decode: () => {
        throw Object.create(null)
      },
      encode: (value) => value
    })
  })
  const explosive = Handler.make(Explosive, () => Effect.void)

  it.scopedLive("ends that job as undecodable, and runs the next one", () =>
    Effect.gen(function* () {
      const pod = yield* TestCluster.hire({
        slots: 1,
        handlers: [explosive, Handler.make(NoopEcho, () => Effect.void)]
      })
      const queue = yield* Queue
      const search = yield* JobSearch
      const job = { version: 1, queue: "default", payload: {}, attempts: 5 }
      const [bad] = yield* queue.enqueue([{ ...job, kind: "explosive" }])
      yield* StepClock.advance("1 second")
      const [good] = yield* queue.enqueue([{ ...job, kind: "noop_echo" }])
      yield* StepClock.advance("1 second")
      if (bad === undefined || good === undefined) return yield* Effect.dieMessage("not stored")
      expect(yield* search.get(good.id)).toMatchObject({ state: "done" })
      expect(yield* search.get(bad.id)).toMatchObject({ state: "dead", reason: "undecodable", crashCount: 0 })
      expect(yield* pod.metrics).not.toContain('nightshift_slots_crashed_total{queue="default"} 1')
      expect(yield* TestCluster.slots()).toEqual([1])
    }).pipe(Effect.provide(TestCluster.layer))
  )
})
