import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Option, Schema } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { Pods } from "../../src/cluster/Pods.js"
import { Shares } from "../../src/cluster/Shares.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as NoopEcho from "../../src/handlers/NoopEcho.js"
import * as Job from "../../src/queue/Job.js"
import { Queue } from "../../src/queue/Queue.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as StepClock from "../support/StepClock.js"
import * as TestCluster from "./TestCluster.js"

const leader = Effect.flatMap(Leadership, (leadership) => Effect.map(leadership.leader, Option.getOrUndefined))

describe("a queue's slots", () => {
  it.scopedLive("are a fair share before the first rebalance", () =>
    Effect.gen(function* () {
      // Another pod leads and does nothing.
      const leadership = yield* Leadership
      const pod = yield* TestCluster.hire()
      yield* pod.stop
      yield* leadership.campaign(pod.worker.pod, Duration.hours(1))
      yield* TestCluster.hire()
      yield* StepClock.advance("2 seconds")
      expect(yield* TestCluster.slots()).toEqual([10])
      yield* TestCluster.hire()
      yield* TestCluster.hire()
      yield* StepClock.advance("3 seconds")
      expect(yield* TestCluster.slots()).toEqual([4, 4, 4])
      expect(yield* Effect.flatMap(Shares, ({ all }) => all)).toEqual([])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("are split by the leader, and rebalanced when pods join and leave", () =>
    Effect.gen(function* () {
      const first = yield* TestCluster.hire()
      yield* TestCluster.hire()
      yield* TestCluster.hire()
      yield* StepClock.advance("2 seconds")
      expect(yield* TestCluster.slots()).toEqual([4, 3, 3])
      expect((yield* leader)?.pod).toBe(first.worker.pod)
      yield* first.stop
      yield* StepClock.advance("2 seconds")
      expect(yield* TestCluster.slots()).toEqual([5, 5])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("are rebalanced within the lease when a pod stops its heartbeat", () =>
    Effect.gen(function* () {
      const pods = [yield* TestCluster.hire(), yield* TestCluster.hire(), yield* TestCluster.hire()]
      yield* StepClock.advance("2 seconds")
      pods[1]?.connected(false)
      yield* StepClock.advance("14 seconds")
      expect((yield* TestCluster.slots())[0]).toBe(4)
      yield* StepClock.advance("8 seconds")
      expect(yield* TestCluster.slots()).toEqual([5, 5])
      pods[1]?.connected(true)
      yield* StepClock.advance("8 seconds")
      expect(yield* TestCluster.slots()).toEqual([4, 3, 3])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("follow a new worker total at once", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      yield* TestCluster.hire()
      yield* TestCluster.hire()
      yield* StepClock.advance("2 seconds")
      expect(yield* TestCluster.slots()).toEqual([5, 5])
      yield* queues.change("default", { maxWorkers: 3 })
      yield* StepClock.advance("1 second")
      expect(yield* TestCluster.slots()).toEqual([2, 1])
      yield* queues.change("default", { maxWorkers: 200 })
      yield* StepClock.advance("1 second")
      expect(yield* TestCluster.slots()).toEqual([64, 64])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("never exceed this process's limit", () =>
    Effect.gen(function* () {
      yield* TestCluster.hire({ slots: 2 })
      yield* TestCluster.hire()
      yield* StepClock.advance("2 seconds")
      expect((yield* TestCluster.slots()).toSorted()).toEqual([2, 5])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("stay unchanged while the queue's settings are missing, and follow them when they return", () =>
    Effect.gen(function* () {
      let there = true
      const queues = yield* Queues
      yield* TestCluster.hire({
        settings: ({ all }) => ({ all: Effect.map(all, (rows) => (there ? rows : [])) })
      })
      yield* StepClock.advance("1 second")
      there = false
      yield* queues.change("default", { maxWorkers: 2 })
      yield* StepClock.advance("10 seconds")
      expect(yield* TestCluster.slots()).toEqual([10])
      there = true
      yield* StepClock.advance("10 seconds")
      expect(yield* TestCluster.slots()).toEqual([2])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("are found by polling when notifications do not arrive", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      let paused = false
      yield* TestCluster.hire({
        settings: ({ all }) => ({ all: Effect.map(all, (rows) => rows.map((row) => ({ ...row, paused }))) })
      })
      yield* StepClock.advance("1 second")
      expect(yield* TestCluster.slots()).toEqual([10])
      paused = true
      yield* StepClock.advance("7 seconds")
      expect(yield* TestCluster.slots()).toEqual([0])
      expect((yield* queues.get("default")).paused).toBe(false)
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("a pod that receives no notifications", () => {
  it.scopedLive("follows changes within a few ticks", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      yield* TestCluster.hire({ pollingOnly: true })
      const other = yield* TestCluster.hire({ pollingOnly: true })
      yield* StepClock.advance("7 seconds")
      expect(yield* TestCluster.slots()).toEqual([5, 5])
      yield* queues.change("default", { paused: true })
      yield* StepClock.advance("2 seconds")
      expect(yield* TestCluster.slots()).toEqual([0, 0])
      yield* queues.change("default", { paused: false })
      yield* other.stop
      yield* StepClock.advance("7 seconds")
      expect(yield* TestCluster.slots()).toEqual([10])
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("the leader", () => {
  it.scopedLive("purges jobs past their queue's retention, and purges nothing once it is cut off", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      const search = yield* JobSearch
      const config = { cleanupInterval: Duration.seconds(30) }
      const pods = [yield* TestCluster.hire({ config }), yield* TestCluster.hire({ config })]
      yield* queues.change("default", { retainDone: Duration.seconds(10) })
      yield* NoopEcho.NoopEcho.enqueue({})
      yield* StepClock.advance("25 seconds")
      expect((yield* search.list({}, { limit: 10 })).jobs).toHaveLength(1)
      for (const pod of pods) pod.connected(false)
      yield* StepClock.advance("35 seconds")
      expect((yield* search.list({}, { limit: 10 })).jobs).toHaveLength(1)
      for (const pod of pods) pod.connected(true)
      yield* StepClock.advance("20 seconds")
      expect((yield* search.list({}, { limit: 10 })).jobs).toEqual([])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("is replaced at once when it resigns, and within the lease when its heartbeat stops", () =>
    Effect.gen(function* () {
      const [one, two, three] = [yield* TestCluster.hire(), yield* TestCluster.hire(), yield* TestCluster.hire()]
      yield* StepClock.advance("1 second")
      const first = yield* leader
      expect(first?.pod).toBe(one.worker.pod)
      expect(yield* one.metrics).toContain("nightshift_leader 1")
      expect(yield* two.metrics).toContain("nightshift_leader 0")
      yield* one.stop
      const second = yield* leader
      expect([two.worker.pod, three.worker.pod]).toContain(second?.pod)
      expect(second?.term).toBeGreaterThan(first?.term ?? 0)
      const [silent, other] = second?.pod === two.worker.pod ? [two, three] : [three, two]
      silent?.connected(false)
      yield* StepClock.advance("20 seconds")
      const third = yield* leader
      expect(third?.pod).toBe(other?.worker.pod)
      expect(yield* silent?.metrics ?? Effect.succeed("")).toContain("nightshift_leader 0")
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("a pod", () => {
  it.scopedLive("is marked as draining before it waits for its jobs, and leaves when the last result is written", () =>
    Effect.gen(function* () {
      const pods = yield* Pods
      const pod = yield* TestCluster.hire()
      const { id } = yield* NoopEcho.NoopEcho.enqueue({ sleep_ms: 10_000 })
      yield* StepClock.advance("1 second")
      const stopping = yield* Effect.fork(pod.stop)
      yield* StepClock.advance("2 seconds")
      expect(yield* pods.live(Duration.seconds(15))).toMatchObject([
        { draining: true, slots: [{ queue: "default", have: 1, busy: 1 }] }
      ])
      expect(yield* leader).toBeUndefined()
      yield* StepClock.advance("10 seconds")
      expect(yield* pods.live(Duration.hours(1))).toEqual([])
      expect(yield* Effect.flatMap(JobSearch, (search) => search.get(id))).toMatchObject({ state: "done" })
      yield* stopping
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("the reaper", () => {
  it.scopedLive("recovers jobs of a silent pod after the stale limit, and removes the pod", () =>
    Effect.gen(function* () {
      const dead = yield* TestCluster.hire()
      const { id } = yield* NoopEcho.NoopEcho.enqueue({ sleep_ms: 3_600_000 })
      yield* StepClock.advance("1 second")
      dead.connected(false)
      const other = yield* TestCluster.hire()
      const search = yield* JobSearch
      yield* StepClock.advance("55 seconds")
      expect(yield* search.get(id)).toMatchObject({ pod: dead.worker.pod, crashCount: 0 })
      yield* StepClock.advance("35 seconds")
      expect(yield* search.get(id)).toMatchObject({ pod: other.worker.pod, crashCount: 1, attempt: 1 })
      const pods = yield* Effect.flatMap(Pods, ({ live }) => live(Duration.hours(1)))
      expect(pods.map(({ id: pod }) => pod)).toEqual([other.worker.pod])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("gives processes that return with it from an outage time for a heartbeat", () =>
    Effect.gen(function* () {
      const one = yield* TestCluster.hire()
      const two = yield* TestCluster.hire({ queues: ["elsewhere"] })
      const { id } = yield* NoopEcho.NoopEcho.enqueue({ sleep_ms: 3_600_000 })
      // The other pod sees the last heartbeat of the job before the outage: beats are 10 s apart, passes of its reaper 15 s.
      yield* StepClock.advance("47 seconds")
      for (const pod of [one, two]) pod.connected(false)
      yield* StepClock.advance("90 seconds")
      // The pod that runs the job reconnects last, after a pass of the other's reaper.
      two.connected(true)
      yield* StepClock.advance("16 seconds")
      one.connected(true)
      yield* StepClock.advance("90 seconds")
      const search = yield* JobSearch
      expect(yield* search.get(id)).toMatchObject({ pod: one.worker.pod, crashCount: 0, state: "running" })
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("a clock that is set forward by several minutes", () => {
  it.scopedLive("ends no run, recovers no job, removes no pod and elects no leader", () =>
    Effect.gen(function* () {
      const Steady = Job.make("steady", { payload: Schema.Struct({}), timeout: "30 seconds" })
      yield* TestCluster.hire({ handlers: [Handler.make(Steady, () => Effect.sleep("25 seconds"))] })
      yield* TestCluster.hire({ queues: ["elsewhere"] })
      yield* Steady.enqueue({})
      yield* StepClock.advance("12 seconds")
      // Deadlines are checked when the earliest one passes, which is the first job's; the second job still runs then.
      const { id } = yield* Steady.enqueue({})
      yield* StepClock.advance("1 second")
      const before = yield* leader
      yield* StepClock.set("5 minutes")
      yield* StepClock.advance("20 seconds")
      const search = yield* JobSearch
      expect(yield* search.get(id)).toMatchObject({ state: "running", crashCount: 0, attempt: 1, history: [] })
      expect((yield* Effect.flatMap(Pods, ({ live }) => live(Duration.seconds(15)))).length).toBe(2)
      expect((yield* leader)?.term).toBe(before?.term)
      yield* StepClock.advance("10 seconds")
      expect(yield* search.get(id)).toMatchObject({ state: "done", crashCount: 0, attempt: 1 })
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

describe("a queue that no pod serves", () => {
  it.scopedLive("is counted by the leader while it has due jobs", () =>
    Effect.gen(function* () {
      const pod = yield* TestCluster.hire()
      const queue = yield* Queue
      const job = { kind: "k", version: 1, payload: {}, attempts: 5 }
      yield* queue.enqueue([{ ...job, queue: "mial" }])
      yield* queue.enqueue([{ ...job, queue: "later", runAt: 60_000 }])
      yield* StepClock.advance("6 seconds")
      expect(yield* pod.metrics).toContain("nightshift_queues_unserved 1")
      yield* StepClock.advance("1 minute")
      expect(yield* pod.metrics).toContain("nightshift_queues_unserved 2")
      yield* TestCluster.hire({ queues: ["mial", "later"] })
      yield* StepClock.advance("6 seconds")
      expect(yield* pod.metrics).toContain("nightshift_queues_unserved 0")
    }).pipe(Effect.provide(TestCluster.layer))
  )
})
