import { describe, expect, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Option, Schema } from "effect"
import { Pods } from "../../src/cluster/Pods.js"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as NoopEcho from "../../src/handlers/NoopEcho.js"
import * as Job from "../../src/queue/Job.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Queue } from "../../src/queue/Queue.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as StepClock from "../support/StepClock.js"
import * as TestCluster from "./TestCluster.js"

// Bugs that job runtimes commonly have. Those of a single port or endpoint are tested with it:
//   finalize by a non-owner                        laws/FinalizeLaws, "a zombie's finalize changes nothing ..."
//   cron in the declared zone                      schedule/Expression, the table of zones
//   requeue resets attempts and respects dedupe    laws/JobAdminLaws, "requeue ..."
//   no raw database errors to clients              http/Requests, "a database error"
//   fair share before the first rebalance          worker/Cluster
//   every pod's gauges are stored                  long/History
//   bulk retry always ends                         laws/OperationsLaws, "a filter covers only jobs stored before ..."
//   children never outlive their job               handlers/CmdExec and WorkerPool, long/Children

const Long = Job.make("long", { payload: Schema.Struct({}) })

const job = (id: Parameters<(typeof JobSearch.Service)["get"]>[0]) =>
  Effect.flatMap(JobSearch, (search) => search.get(id))

const running = Effect.gen(function* () {
  const search = yield* JobSearch
  const { jobs } = yield* search.list({ state: "running" }, { limit: 100 })
  return jobs.length
})

describe("regressions:", () => {
  it.scopedLive("a pod without queues does not start, and one with queues declares them", () =>
    Effect.gen(function* () {
      const none = yield* Effect.exit(TestCluster.hire({ queues: [] }))
      const [problem] = Exit.isFailure(none) ? [...Cause.defects(none.cause)] : []
      expect(problem).toMatchObject({ _tag: "NoQueues", message: expect.stringContaining("NIGHTSHIFT_QUEUES") })
      expect(yield* Effect.flatMap(Pods, ({ live }) => live(Duration.hours(1)))).toEqual([])
      const pod = yield* TestCluster.hire({ queues: ["mail", "mail", "push"] })
      expect(pod.worker.queues).toEqual(["mail", "push"])
      const declared = yield* Effect.flatMap(Queues, ({ all }) => all)
      expect(declared.map(({ name }) => name)).toEqual(["mail", "push"])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("a lost lease stops the handler", () =>
    Effect.gen(function* () {
      let stopped = 0
      const handler = Handler.make(Long, () =>
        Effect.onInterrupt(Effect.never, () => Effect.sync(() => (stopped += 1)))
      )
      yield* TestCluster.hire({ handlers: [handler] })
      const { id } = yield* Long.enqueue({})
      yield* StepClock.advance("1 second")
      const queue = yield* Queue
      yield* queue.recoverStuck(Duration.zero)
      yield* StepClock.advance("11 seconds")
      expect(stopped).toBe(1)
      expect(yield* job(id)).toMatchObject({ state: "running", crashCount: 1, history: [{ outcome: "crashed" }] })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("a job that ends while its heartbeat is sent is not reported as lost", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const unknown: Array<number> = []
      const lines: Array<string> = []
      // The heartbeat arrives two seconds after it was sent, when the job has ended.
      const slow = Queue.of({
        ...queue,
        heartbeat: (held) =>
          Effect.tap(Effect.delay(queue.heartbeat(held), "2 seconds"), ({ lost }) =>
            Effect.sync(() => void unknown.push(lost.length))
          )
      })
      yield* Effect.provideService(TestCluster.hire({ log: (line) => void lines.push(line) }), Queue, slow)
      const { id } = yield* NoopEcho.NoopEcho.enqueue({ sleep_ms: 11_000, message: "done" })
      yield* StepClock.advance("15 seconds")
      expect(unknown).toEqual([1])
      expect(yield* job(id)).toMatchObject({ state: "done", result: "done" })
      expect(lines).toContainEqual(expect.stringMatching(/^process \S+ started/))
      expect(lines.filter((line) => line.startsWith("heartbeat"))).toEqual([])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("a late cancel does not overwrite Done", () =>
    Effect.gen(function* () {
      const jobAdmin = yield* JobAdmin
      const pod = yield* TestCluster.hire()
      const { id } = yield* NoopEcho.NoopEcho.enqueue({ sleep_ms: 1_000, message: "done" })
      yield* StepClock.advance("500 millis")
      // The handler ends while its pod cannot write, and the cancel request arrives before the end is written.
      pod.connected(false)
      yield* StepClock.advance("1 second")
      expect(yield* jobAdmin.cancel(id)).toMatchObject({ state: "running", cancelRequestedAt: 1_500 })
      pod.connected(true)
      yield* StepClock.advance("15 seconds")
      expect(yield* job(id)).toMatchObject({ state: "done", result: "done", reason: undefined })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("the heartbeat of a crashing handler's job stops with it", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const bomb = Handler.make(Long, (): Effect.Effect<void> => {
        throw new Error("boom")
      })
      yield* TestCluster.hire({ handlers: [bomb] })
      const { id } = yield* Long.enqueue({})
      yield* StepClock.advance("1 second")
      expect(yield* job(id)).toMatchObject({ state: "retrying", pod: undefined, heartbeatAt: undefined })
      expect(yield* queue.recoverStuck(Duration.zero)).toMatchObject({ rescued: 0 })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("jobs in a cool-down keep their pod alive and notice an early end", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      let calls = 0
      const throttled = Handler.make(Long, () =>
        Effect.sync(() => {
          calls += 1
          return calls === 1 ? Outcome.throttled({ after: Duration.minutes(30) }) : Outcome.done()
        })
      )
      const pod = yield* TestCluster.hire({ handlers: [throttled] })
      const { id } = yield* Long.enqueue({})
      yield* StepClock.advance("2 minutes")
      const live = yield* Effect.flatMap(Pods, (pods) => pods.live(Duration.seconds(2)))
      expect(live.map((each) => each.id)).toEqual([pod.worker.pod])
      expect([calls, (yield* job(id)).attempt]).toEqual([1, 0])
      yield* queues.change("default", { throttledUntil: null })
      // The job keeps its own delay; a new job of the queue does not wait for the rest of the cool-down.
      const { id: next } = yield* Long.enqueue({})
      yield* StepClock.advance("3 seconds")
      expect(yield* job(next)).toMatchObject({ state: "done" })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("a cancel survives the death of the owning pod", () =>
    Effect.gen(function* () {
      const jobAdmin = yield* JobAdmin
      const forever = { handlers: [Handler.make(Long, () => Effect.never)] }
      const owner = yield* TestCluster.hire(forever)
      const { id } = yield* Long.enqueue({})
      yield* StepClock.advance("1 second")
      owner.connected(false)
      yield* jobAdmin.cancel(id)
      yield* TestCluster.hire(forever)
      yield* StepClock.advance("90 seconds")
      expect(yield* job(id)).toMatchObject({ state: "cancelled", reason: "cancelled" })
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("a pod drains its jobs in parallel", () =>
    Effect.gen(function* () {
      const queues = ["a", "b", "c"]
      const stubborn = Handler.make(Long, () => Effect.uninterruptible(Effect.sleep("1 hour")))
      const pod = yield* TestCluster.hire({ queues, handlers: [stubborn] })
      for (const queue of queues) yield* Long.enqueue({}, { queue })
      yield* StepClock.advance("1 second")
      expect(yield* running).toBe(3)
      const stopping = yield* Effect.fork(pod.stop)
      // The grace period of 25 seconds plus 5 for a handler that ignores it, once in all and not per job.
      yield* StepClock.advance("33 seconds")
      expect(Option.isSome(yield* stopping.poll)).toBe(true)
      expect(yield* running).toBe(0)
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("a bulk enqueue wakes enough slots", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      yield* TestCluster.hire({ handlers: [Handler.make(Long, () => Effect.never)] })
      yield* StepClock.advance("1 second")
      const one = { kind: "long", version: 1, queue: "default", payload: {}, attempts: 5 }
      yield* queue.enqueue(Array.from({ length: 50 }, () => one))
      yield* StepClock.advance("1 millis")
      const pods = yield* Effect.flatMap(Pods, ({ live }) => live(Duration.hours(1)))
      expect(pods[0]?.slots).toMatchObject([{ have: 10 }])
      expect(yield* running).toBe(10)
    }).pipe(Effect.provide(TestCluster.layer))
  )
})
