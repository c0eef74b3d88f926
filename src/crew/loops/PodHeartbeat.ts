import { Context, Duration, Effect, Layer, Schedule, type Scope } from "effect"
import { type Orders, Pods, podsTopic } from "../../cluster/Pods.js"
import { sharesTopic } from "../../cluster/Shares.js"
import { steadyNow } from "../../core/ChangeWatch.js"
import { makeLatch } from "../../core/Latch.js"
import type { Loop } from "../../core/Loop.js"
import { wakeable } from "../../core/LoopSchedule.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Signals } from "../../database/Signals.js"
import { EventLoop } from "../../telemetry/EventLoop.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { CrewConfig } from "../CrewConfig.js"
import { repeatCounted } from "../LoopRunner.js"
import { Pod } from "../Pod.js"
import { Supervisors } from "../worker/Supervisors.js"

// A pod shows itself every second, and the same statement brings back what the cluster wants of it. It is the first to come
// and the last to go: its row stands until the last end of its last job is written.

const lateBeats = MetricSpec.counter(
  "heartbeats_late_total",
  "Beats of this process that came late because something kept its event loop busy."
)

/** How long a process that must end waits for its row to be gone. */
const farewell = Duration.seconds(2)

/** This pod as the cluster sees it. */
export class PodHeartbeat extends Context.Tag("nightshift/crew/PodHeartbeat")<
  PodHeartbeat,
  {
    /** What the cluster last said. */
    readonly orders: () => Orders
    /** Calls back when the cluster says something else than before, until the Scope closes. */
    readonly onOrders: (listener: () => void) => Effect.Effect<void, never, Scope.Scope>
    /** How long the database has heard this pod without a gap. */
    readonly steadyFor: Effect.Effect<Duration.Duration>
    /** Tells the cluster that this pod is on its way out: its slots are for others from now on. */
    readonly drain: Effect.Effect<void>
  }
>() {
  /** Beats until the Scope closes, and then leaves. */
  static layer(serves: {
    readonly queues: ReadonlyArray<string>
    readonly kinds: ReadonlyArray<string>
  }): Layer.Layer<
    PodHeartbeat,
    DatabaseError,
    Pods | Signals | Pod | Supervisors | ClusterConfig | CrewConfig | Metrics
  > {
    return Layer.scoped(PodHeartbeat, make(serves))
  }
}

const isSameMap = (a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>) =>
  a.size === b.size && [...a].every(([key, value]) => b.get(key) === value)

const isSame = (a: Orders, b: Orders) => isSameMap(a.shares, b.shares) && isSameMap(a.companions, b.companions)

const make = (serves: { readonly queues: ReadonlyArray<string>; readonly kinds: ReadonlyArray<string> }) =>
  Effect.gen(function* () {
    const pods = yield* Pods
    const signals = yield* Signals
    const supervisors = yield* Supervisors
    const { lease, podHeartbeat } = yield* ClusterConfig
    const { heartbeat } = yield* CrewConfig
    const facts = { ...(yield* Pod), ...serves }
    const delays = yield* (yield* EventLoop.own).watch
    const late = (yield* Metrics).series(lateBeats, {})
    const longestGap = Duration.toMillis(podHeartbeat) + Duration.toMillis(heartbeat)
    let orders: Orders = { shares: new Map(), companions: new Map() }
    const listeners = new Set<() => void>()
    let draining = false
    let lastBeat = yield* steadyNow
    let steadySince = lastBeat

    const beat = Effect.gen(function* () {
      const slots = [...supervisors].map(([queue, supervisor]) => ({ queue, ...supervisor.slots() }))
      const said = yield* pods.beat(facts, { slots, draining }, lease)
      if (!isSame(said, orders)) {
        orders = said
        for (const listener of listeners) listener()
      }
      const now = yield* steadyNow
      if (now - lastBeat > longestGap) steadySince = now
      lastBeat = now
    })

    /** A process whose event loop stood still could not beat, whatever it was about to do just then. */
    const noticeLateness = Effect.gen(function* () {
      const kinds = new Set([...supervisors.values()].flatMap((supervisor) => supervisor.kindsSince()))
      const lateBy = Duration.seconds((yield* delays).max)
      if (Duration.lessThan(lateBy, podHeartbeat)) return
      late.add(1)
      const meanwhile = kinds.size === 0 ? "no job ran" : `jobs that ran: ${[...kinds].sort().join(", ")}`
      yield* Effect.logWarning(
        `the heartbeat came ${Duration.toSeconds(lateBy).toFixed(1)}s late: something blocked the event loop (${meanwhile})`
      )
    })

    /** What can be said on the way out; whoever cannot be reached notices by itself. */
    const lastWord = (word: Effect.Effect<void, DatabaseError>) =>
      word.pipe(
        Effect.zipRight(signals.tell(podsTopic, facts.id)),
        Effect.interruptible,
        Effect.timeout(farewell),
        Effect.catchAll((error) => Effect.logDebug("could not say that this process ends", error))
      )

    yield* beat
    yield* signals.tell(podsTopic, facts.id)
    yield* Effect.addFinalizer(() => lastWord(pods.leave(facts.id)))
    const latch = makeLatch()
    yield* signals.hear(sharesTopic, latch.open)
    const loop: Loop = {
      name: "pod heartbeat",
      about: "showing that this process lives",
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
    yield* Effect.forkScoped(repeatCounted(loop))

    return PodHeartbeat.of({
      orders: () => orders,
      onOrders: (listener) =>
        Effect.acquireRelease(
          Effect.sync(() => void listeners.add(listener)),
          () => Effect.sync(() => void listeners.delete(listener))
        ),
      steadyFor: Effect.map(steadyNow, (now) => Duration.millis(now - steadySince)),
      drain: Effect.suspend(() => {
        draining = true
        return lastWord(beat)
      })
    })
  })
