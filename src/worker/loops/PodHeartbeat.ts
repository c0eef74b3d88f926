import { Context, Duration, Effect, Layer, Option, Schedule, type Scope } from "effect"
import { type Assignment, type PodFacts, Pods, podsTopic } from "../../cluster/Pods.js"
import { sharesTopic } from "../../cluster/Shares.js"
import { steadyNow } from "../../core/ChangeWatch.js"
import type { Loop } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import { untilClosed } from "../../core/Registration.js"
import { patiently } from "../../database/Database.js"
import { DatabaseTime } from "../../database/DatabaseClock.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { EventLoop } from "../../telemetry/EventLoop.js"
import { runLoop } from "../../telemetry/LoopRunner.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { Pod } from "../Pod.js"
import { Supervisors } from "../slots/Supervisor.js"
import { WorkerConfig } from "../WorkerConfig.js"

// A pod sends a heartbeat every second, and the same statement returns its slot assignments and the other pods that have
// become silent. This layer is the first to start and the last to stop: the pod's row exists until the result of its last
// job is written, and its lock is held for as long.

const lateBeats = MetricSpec.counter(
  "heartbeats_late_total",
  "Heartbeats of this process that were late because its event loop was blocked."
)

/** A pod without a lock is dead after this many missed heartbeats. */
const missedBeats = 2

/** Timeout of each write on shutdown. */
const shutdownTimeout = Duration.seconds(2)

/** The heartbeat of this pod and the assignments it returned. */
export class PodHeartbeat extends Context.Tag("nightshift/worker/PodHeartbeat")<
  PodHeartbeat,
  {
    /** The latest assignments. */
    readonly assignment: () => Assignment
    /** Calls the listener when the assignments change, until the Scope closes. */
    readonly onOrders: (listener: () => void) => Effect.Effect<void, never, Scope.Scope>
    /** Calls the listener after every heartbeat that found silent pods (see `Assignment.silent`), until the Scope closes. */
    readonly onSilence: (listener: () => void) => Effect.Effect<void, never, Scope.Scope>
    /** How long heartbeats have been succeeding without a gap. Zero while they do not. */
    readonly steadyFor: Effect.Effect<Duration.Duration>
    /**
     * How long this pod has held its lock, and the server has answered every heartbeat within two beats. Zero while it does not.
     * A fault that hits all pods at once, such as a restart of the server, resets it.
     */
    readonly undisturbedFor: Effect.Effect<Duration.Duration>
    /** Announces that this pod is stopping, so that its slots are assigned to other pods. */
    readonly drain: Effect.Effect<void>
  }
>() {
  /** Sends heartbeats until the Scope closes, then removes the pod's row. */
  static layer(
    serves: Serves
  ): Layer.Layer<
    PodHeartbeat,
    DatabaseError,
    Pods | Hints | Pod | Supervisors | ClusterConfig | WorkerConfig | Metrics
  > {
    return Layer.scoped(PodHeartbeat, make(serves))
  }
}

type Serves = Pick<PodFacts, "queues" | "kinds" | "releases">

const isSameMap = (a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>) =>
  a.size === b.size && [...a].every(([key, value]) => b.get(key) === value)

const isSame = (a: Assignment, b: Assignment) =>
  isSameMap(a.shares, b.shares) && isSameMap(a.servingPods, b.servingPods)

export const make = (serves: Serves) =>
  Effect.gen(function* () {
    const pods = yield* Pods
    const hints = yield* Hints
    const supervisors = yield* Supervisors
    const { lease, podHeartbeat } = yield* ClusterConfig
    const { heartbeat } = yield* WorkerConfig
    const facts = { ...(yield* Pod), ...serves }
    const delays = yield* (yield* EventLoop.own).watch
    // Absent in memory, where all pods share one clock.
    const time = yield* Effect.serviceOption(DatabaseTime)
    const late = (yield* Metrics).series(lateBeats, {})
    const longestGap = Duration.toMillis(podHeartbeat) + Duration.toMillis(heartbeat)
    const deadAfter = Duration.times(podHeartbeat, missedBeats)
    const longestDelay = Duration.toMillis(deadAfter)
    let assignment: Assignment = { shares: new Map(), servingPods: new Map(), otherReleases: new Map(), silent: [] }
    const listeners = new Set<() => void>()
    const silenceListeners = new Set<() => void>()
    let draining = false
    let lastBeat = yield* steadyNow
    let steadySince = lastBeat
    let promptSince = lastBeat
    const notPrompt = Effect.map(steadyNow, (now) => {
      promptSince = now
    })
    // Requested before the first heartbeat and held until the row is removed, so that a silent pod without a lock has ended.
    const heldFor = yield* pods.holdLock(facts.id)

    const beat = Effect.gen(function* () {
      const slots = [...supervisors].map(([queue, supervisor]) => ({ queue, ...supervisor.slots() }))
      const clockOffset = Option.isNone(time) ? undefined : (yield* time.value.offsetMillis) / 1000
      const isLocked = Option.isSome(yield* heldFor)
      const sentAt = yield* steadyNow
      const received = yield* Effect.onError(
        pods.beat(facts, { slots, draining, clockOffset }, lease, isLocked ? deadAfter : undefined),
        () => notPrompt
      )
      const before = assignment
      assignment = received
      const now = yield* steadyNow
      if (now - lastBeat > longestGap) steadySince = now
      // The reply alone: a late heartbeat of a busy process says nothing about the server.
      if (now - sentAt > longestDelay) promptSince = now
      lastBeat = now
      if (!isSame(received, before)) for (const listener of listeners) listener()
      if (received.silent.length > 0) for (const listener of silenceListeners) listener()
    })

    /** Logs a heartbeat that was delayed by a blocked event loop, with the kinds that ran in the meantime. */
    const noticeLateness = Effect.gen(function* () {
      const kinds = new Set([...supervisors.values()].flatMap((supervisor) => supervisor.kindsSince()))
      const lateBy = Duration.seconds((yield* delays).max)
      if (Duration.lessThan(lateBy, podHeartbeat)) return
      late.add(1)
      const meanwhile = kinds.size === 0 ? "no job ran" : `kinds that ran: ${[...kinds].sort().join(", ")}`
      yield* Effect.logWarning(
        `the heartbeat was ${Duration.toSeconds(lateBy).toFixed(1)}s late because the event loop was blocked (${meanwhile})`
      )
    })

    /** Writes and sends a hint on shutdown. Best effort: if it fails, other pods notice the missing heartbeat later. */
    const announce = (write: Effect.Effect<void, DatabaseError>) =>
      write.pipe(
        Effect.zipRight(hints.publish(podsTopic, facts.id)),
        Effect.interruptible,
        Effect.timeout(shutdownTimeout),
        Effect.catchAll((error) =>
          Effect.logDebug(
            "could not announce that this process is stopping; other processes notice when its heartbeats stop",
            error
          )
        )
      )

    yield* patiently(beat)
    yield* hints.publish(podsTopic, facts.id)
    yield* Effect.addFinalizer(() => announce(pods.leave(facts.id)))
    const latch = makeLatch()
    yield* hints.subscribe(sharesTopic, latch.open)
    const loop: Loop = {
      name: "process heartbeat",
      about: "sending the heartbeat of this process",
      schedule: wakeable(Schedule.spaced(podHeartbeat), latch.openedWithin),
      runAtStart: false,
      steps: [
        {
          name: "beat",
          timeout: Duration.max(podHeartbeat, Duration.seconds(5)),
          run: noticeLateness.pipe(Effect.zipRight(beat), Effect.as({}))
        }
      ]
    }
    yield* runLoop(loop)

    const subscribe = (to: Set<() => void>) => (listener: () => void) =>
      untilClosed(
        () => void to.add(listener),
        () => void to.delete(listener)
      )

    return PodHeartbeat.of({
      assignment: () => assignment,
      onOrders: subscribe(listeners),
      onSilence: subscribe(silenceListeners),
      // In an outage, no heartbeat has noticed the gap yet.
      steadyFor: Effect.map(steadyNow, (now) =>
        now - lastBeat > longestGap ? Duration.zero : Duration.millis(now - steadySince)
      ),
      undisturbedFor: Effect.zipWith(heldFor, steadyNow, (held, now) =>
        Option.isNone(held) || now - lastBeat > longestDelay
          ? Duration.zero
          : Duration.min(held.value, Duration.millis(now - promptSince))
      ),
      drain: Effect.suspend(() => {
        draining = true
        return announce(beat)
      })
    })
  })
