import { describe, expect, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Logger, Ref, TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { Pods, podsTopic } from "../../src/cluster/Pods.js"
import { makeGenerator, type PodId } from "../../src/core/Ids.js"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
import { Hints } from "../../src/database/Hints.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { runLoop } from "../../src/telemetry/LoopRunner.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { ClusterConfig } from "../../src/worker/ClusterConfig.js"
import { PodHeartbeat } from "../../src/worker/loops/PodHeartbeat.js"
import * as Rescuer from "../../src/worker/loops/Rescuer.js"
import { Pod } from "../../src/worker/Pod.js"
import { WorkerConfig } from "../../src/worker/WorkerConfig.js"
import { podFacts } from "../support/PodFacts.js"

/** A dead pod with one job, beside a rescuer. */
interface Story {
  readonly dead: PodId
  /** A heartbeat of the observer, which wakes the rescuer if it finds a silent pod. */
  readonly beat: Effect.Effect<void, unknown>
  readonly pendingQueues: Effect.Effect<ReadonlyArray<string>, unknown>
  readonly logged: Effect.Effect<ReadonlyArray<string>>
  readonly undisturbed: Ref.Ref<Duration.Duration>
  /** Makes the next rescues of jobs fail. */
  readonly failures: Ref.Ref<number>
  /** Makes the next rescues find all jobs locked by another transaction. */
  readonly lockedRescues: Ref.Ref<number>
  /** How many rescues of jobs were tried. */
  readonly rescues: Effect.Effect<number>
  /** Subjects of the hints about pods. */
  readonly hinted: ReadonlyArray<string | undefined>
}

const withRescuer = (story: (given: Story) => Effect.Effect<void, unknown>) =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    const ids = yield* makeGenerator
    const [dead, observer] = [ids.pod(1), ids.pod(2)]
    const stores = yield* Layer.build(
      ClusterMemory.layer.pipe(Layer.provideMerge(QueueMemory.layer), Layer.provide(Wakeups.layer))
    )
    const [queue, pods] = [Context.get(stores, Queue), Context.get(stores, Pods)]
    const undisturbed = yield* Ref.make(Duration.hours(1))
    const failures = yield* Ref.make(0)
    const lockedRescues = yield* Ref.make(0)
    const rescues = yield* Ref.make(0)
    const failing: typeof Queue.Service = {
      ...queue,
      recoverOrphaned: (given) =>
        Effect.gen(function* () {
          yield* Ref.update(rescues, (count) => count + 1)
          if ((yield* Ref.getAndUpdate(failures, (left) => left - 1)) > 0)
            return yield* new DatabaseFault({ detail: "broken on purpose" })
          if ((yield* Ref.getAndUpdate(lockedRescues, (left) => left - 1)) > 0)
            return { rescued: 0, poisoned: 0, cancelled: 0, left: given }
          return yield* queue.recoverOrphaned(given)
        })
    }
    const hinted: Array<string | undefined> = []
    yield* Context.get(stores, Hints).subscribe(podsTopic, (subject) => void hinted.push(subject))

    const held = Effect.scoped(
      Effect.gen(function* () {
        yield* pods.holdLock(dead)
        yield* pods.beat(podFacts(dead), { slots: [], draining: false }, Duration.seconds(15), Duration.seconds(2))
        yield* queue.enqueue([{ kind: "greet", version: 1, queue: "mail", payload: {}, attempts: 3 }])
        expect(yield* queue.claim({ queue: "mail", pod: dead, limit: 1 })).toHaveLength(1)
      })
    )
    yield* held
    yield* pods.holdLock(observer)

    let wake = () => {}
    const heartbeat = Layer.succeed(PodHeartbeat, {
      assignment: () => ({ shares: new Map(), servingPods: new Map(), otherReleases: new Map(), silent: [] }),
      onOrders: () => Effect.void,
      onSilence: (listener) =>
        Effect.sync(() => {
          wake = listener
        }),
      steadyFor: Effect.succeed(Duration.hours(1)),
      undisturbedFor: Ref.get(undisturbed),
      drain: Effect.void
    })
    const loop = Layer.scopedDiscard(Effect.flatMap(Rescuer.make, runLoop)).pipe(
      Layer.provide([heartbeat, Metrics.layer, ClusterConfig.layer, WorkerConfig.layer]),
      Layer.provide([Layer.succeed(Queue, failing), Layer.succeed(Pods, pods), Layer.succeed(Pod, podFacts(observer))]),
      Layer.provide(Layer.succeed(Hints, Context.get(stores, Hints)))
    )
    const log = Logger.replace(
      Logger.defaultLogger,
      Logger.make(({ message }) => void lines.push([message].flat().join(" ")))
    )
    const beat = Effect.gen(function* () {
      const { silent } = yield* pods.beat(podFacts(observer), { slots: [], draining: false }, Duration.seconds(15))
      if (silent.length > 0) wake()
    })
    yield* beat
    yield* Effect.provide(
      story({
        dead,
        beat: Effect.zipRight(beat, TestClock.adjust(0)),
        pendingQueues: queue.pendingQueues,
        logged: Effect.sync(() => lines.filter((line) => !line.includes("started:"))),
        undisturbed,
        failures,
        lockedRescues,
        rescues: Ref.get(rescues),
        hinted
      }),
      Layer.provide(loop, log)
    ).pipe(Effect.provide(log))
  })

/** Two heartbeats: a lock must be free at both. */
const twice = (beat: Effect.Effect<void, unknown>) =>
  beat.pipe(Effect.zipRight(TestClock.adjust("1 second")), Effect.zipRight(beat))

describe("the rescuer", () => {
  it.scoped("rescues the jobs of a pod that missed two heartbeats and whose lock is free, and says why", () =>
    withRescuer(({ beat, dead, hinted, logged, pendingQueues }) =>
      Effect.gen(function* () {
        yield* TestClock.adjust("1100 millis")
        yield* beat
        expect(yield* pendingQueues).toEqual([])
        expect(hinted).toEqual([])
        yield* TestClock.adjust("1400 millis")
        yield* beat
        expect(yield* pendingQueues).toEqual(["mail"])
        // The leader reassigns its slots at once.
        expect(hinted).toEqual([dead])
        expect(yield* logged).toEqual([
          `process ${dead} is dead: its database session has ended and it has sent no heartbeat for 2.5s. Rescuing its jobs now instead of after 1m (QUEUE_STALE_AFTER).`,
          "rescuer recover: rescued=1 poisoned=0 cancelled=0"
        ])
      })
    )
  )

  it.scoped("rescues nothing until this process has been undisturbed for long enough", () =>
    withRescuer(({ beat, logged, pendingQueues, undisturbed }) =>
      Effect.gen(function* () {
        yield* Ref.set(undisturbed, Duration.seconds(19))
        yield* TestClock.adjust("10 seconds")
        yield* beat
        yield* TestClock.adjust("1 second")
        yield* beat
        expect(yield* pendingQueues).toEqual([])
        expect(yield* logged).toEqual([])
        yield* Ref.set(undisturbed, Duration.seconds(20))
        yield* twice(beat)
        expect(yield* pendingQueues).toEqual(["mail"])
      })
    )
  )

  it.scoped("tries again a second later if it could not rescue the jobs of a pod that it has removed", () =>
    withRescuer(({ beat, failures, pendingQueues }) =>
      Effect.gen(function* () {
        yield* Ref.set(failures, 2)
        yield* TestClock.adjust("10 seconds")
        yield* twice(beat)
        expect(yield* pendingQueues).toEqual([])
        yield* TestClock.adjust("1 second")
        expect(yield* pendingQueues).toEqual([])
        yield* TestClock.adjust("1 second")
        expect(yield* pendingQueues).toEqual(["mail"])
      })
    )
  )

  it.scoped("tries again after a heartbeat while jobs are locked, until none are left", () =>
    withRescuer(({ beat, lockedRescues, pendingQueues, rescues }) =>
      Effect.gen(function* () {
        yield* Ref.set(lockedRescues, 2)
        yield* TestClock.adjust("10 seconds")
        yield* twice(beat)
        expect(yield* rescues).toBe(1)
        yield* TestClock.adjust("1 second")
        expect(yield* pendingQueues).toEqual([])
        yield* TestClock.adjust("1 second")
        expect(yield* pendingQueues).toEqual(["mail"])
        yield* TestClock.adjust("1 hour")
        expect(yield* rescues).toBe(3)
      })
    )
  )

  it.scoped("leaves the jobs of a removed pod to the reaper after QUEUE_STALE_AFTER", () =>
    withRescuer(({ beat, failures, rescues }) =>
      Effect.gen(function* () {
        yield* Ref.set(failures, 1_000_000)
        yield* TestClock.adjust("10 seconds")
        yield* twice(beat)
        yield* TestClock.adjust("2 minutes")
        const tried = yield* rescues
        expect(tried).toBeGreaterThan(10)
        yield* TestClock.adjust("1 hour")
        expect(yield* rescues).toBe(tried)
      })
    )
  )
})
