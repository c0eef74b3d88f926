import { describe, expect, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Logger, Ref, TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { Pods } from "../../src/cluster/Pods.js"
import { makeGenerator, type PodId } from "../../src/core/Ids.js"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
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
}

const facts = (id: PodId) => ({
  id,
  label: undefined,
  version: "1",
  queues: ["mail"],
  kinds: [],
  releases: {},
  host: { name: "here", pid: 1, node: "v20" },
  startedAt: 0
})

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
    const failing: typeof Queue.Service = {
      ...queue,
      recoverOrphaned: (given) =>
        Effect.flatMap(
          Ref.getAndUpdate(failures, (left) => left - 1),
          (left) => (left > 0 ? new DatabaseFault({ detail: "broken on purpose" }) : queue.recoverOrphaned(given))
        )
    }

    const held = Effect.scoped(
      Effect.gen(function* () {
        yield* pods.holdLock(dead)
        yield* pods.beat(facts(dead), { slots: [], draining: false }, Duration.seconds(15), Duration.seconds(2))
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
      Layer.provide([Layer.succeed(Queue, failing), Layer.succeed(Pods, pods), Layer.succeed(Pod, facts(observer))])
    )
    const log = Logger.replace(
      Logger.defaultLogger,
      Logger.make(({ message }) => void lines.push([message].flat().join(" ")))
    )
    const beat = Effect.gen(function* () {
      const { silent } = yield* pods.beat(facts(observer), { slots: [], draining: false }, Duration.seconds(15))
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
        failures
      }),
      Layer.provide(loop, log)
    ).pipe(Effect.provide(log))
  })

describe("the rescuer", () => {
  it.scoped("rescues the jobs of a pod that missed two heartbeats and whose lock is free, and says why", () =>
    withRescuer(({ beat, dead, logged, pendingQueues }) =>
      Effect.gen(function* () {
        yield* TestClock.adjust("1 second")
        yield* beat
        expect(yield* pendingQueues).toEqual([])
        yield* TestClock.adjust("1500 millis")
        yield* beat
        expect(yield* pendingQueues).toEqual(["mail"])
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
        expect(yield* pendingQueues).toEqual([])
        expect(yield* logged).toEqual([])
        yield* Ref.set(undisturbed, Duration.seconds(20))
        yield* beat
        expect(yield* pendingQueues).toEqual(["mail"])
      })
    )
  )

  it.scoped("tries again a second later if it could not rescue the jobs of a pod that it has removed", () =>
    withRescuer(({ beat, failures, pendingQueues }) =>
      Effect.gen(function* () {
        yield* Ref.set(failures, 2)
        yield* TestClock.adjust("10 seconds")
        yield* beat
        expect(yield* pendingQueues).toEqual([])
        yield* TestClock.adjust("1 second")
        expect(yield* pendingQueues).toEqual([])
        yield* TestClock.adjust("1 second")
        expect(yield* pendingQueues).toEqual(["mail"])
      })
    )
  )
})
