import { Context, Duration, Effect, Option, Schedule, type Scope, Stream, SubscriptionRef } from "effect"
import { Leadership, TermEnded } from "../../cluster/Leadership.js"
import { steadyNow } from "../../core/ChangeWatch.js"
import type { Term } from "../../core/Ids.js"
import { type LeaderLoop, repeatLoop, type Step, single } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { repeatCounted } from "../../telemetry/LoopRunner.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { Pod } from "../Pod.js"

// Every pod campaigns at a third of the lease: the leader renews, the other pods try to take the lease. A leader that
// cannot renew stops when its lease expires on its own monotonic clock; the term fences its later writes. On shutdown
// it resigns and sends a hint, so that another pod takes over immediately.

const leads = MetricSpec.gauge("leader", "1 while this process leads the cluster.")

/** Topic of hints for a released lease. */
const leaderTopic = "leader"

/** Timeout for resigning on shutdown. */
const resignTimeout = Duration.seconds(2)

/** Leadership of this pod. */
export class Leader extends Context.Tag("nightshift/worker/Leader")<
  Leader,
  {
    /** The current term if this pod leads. */
    readonly term: Effect.Effect<Option.Option<Term>>

    /** Runs the effect whenever this pod is elected and interrupts it when the term ends, until the Scope closes. */
    readonly whileLeading: <R>(
      work: (term: Term) => Effect.Effect<void, never, R>
    ) => Effect.Effect<void, never, R | Scope.Scope>

    /** Runs a loop while this pod leads, from its election on. */
    readonly runLoop: (loop: LeaderLoop) => Effect.Effect<void, never, Metrics | Scope.Scope>
  }
>() {
  /** Campaigns until the Scope closes, then resigns. */
  static readonly make: Effect.Effect<
    typeof Leader.Service,
    never,
    Leadership | Hints | ClusterConfig | Pod | Metrics | Scope.Scope
  > = Effect.suspend(() => make)
}

const make = Effect.gen(function* () {
  const leadership = yield* Leadership
  const hints = yield* Hints
  const { lease } = yield* ClusterConfig
  const pod = yield* Pod
  const metrics = yield* Metrics
  const current = yield* SubscriptionRef.make<Option.Option<Term>>(Option.none())
  const every = Duration.times(lease, 1 / 3)
  const latch = makeLatch()
  let leadsUntil = Number.NEGATIVE_INFINITY
  /** True when the last campaign got no answer, so this pod may hold the lease without knowing it. */
  let isUncertain = false

  const set = (term: Option.Option<Term>) =>
    Effect.gen(function* () {
      const before = yield* SubscriptionRef.get(current)
      if (Option.getEquivalence<Term>((a, b) => a === b)(before, term)) return
      yield* SubscriptionRef.set(current, term)
      yield* Effect.logInfo(
        Option.isSome(term) ? `leading the cluster in term ${term.value}` : "no longer leading the cluster"
      )
    })

  const campaign = Effect.gen(function* () {
    const sentAt = yield* steadyNow
    isUncertain = true
    const term = yield* leadership.campaign(pod.id, lease).pipe(Effect.timeout(every))
    isUncertain = false
    leadsUntil = sentAt + Duration.toMillis(lease)
    yield* set(term)
  }).pipe(
    Effect.catchAll((error) =>
      Effect.gen(function* () {
        yield* Effect.logDebug("could not campaign for the leader's lease; retrying", error)
        if ((yield* steadyNow) >= leadsUntil) yield* set(Option.none())
      })
    )
  )

  const endTerm = (term: Term) =>
    Effect.flatMap(SubscriptionRef.get(current), (now) =>
      Option.contains(now, term) ? set(Option.none()) : Effect.void
    )

  /** Ends the term when a step finds that another pod leads, which is not a failure of the step. */
  const endingTermOnLoss = (term: Term, step: Step): Step => ({
    ...step,
    run: Effect.catchIf(
      step.run,
      (error) => error instanceof TermEnded,
      () => Effect.as(endTerm(term), {})
    )
  })

  const whileLeading = <R>(work: (term: Term) => Effect.Effect<void, never, R>) =>
    current.changes.pipe(
      Stream.flatMap((term) => (Option.isSome(term) ? Stream.fromEffect(work(term.value)) : Stream.empty), {
        switch: true
      }),
      Stream.runDrain,
      Effect.forkScoped,
      Effect.asVoid
    )

  yield* Effect.addFinalizer(() =>
    Effect.gen(function* () {
      const term = yield* SubscriptionRef.get(current)
      yield* set(Option.none())
      if (Option.isNone(term) && !isUncertain) return
      // A campaign without an answer may have started a new term, so resign from any term and not only from the known one.
      const ended = isUncertain ? undefined : Option.getOrUndefined(term)
      yield* leadership.resign(pod.id, ended).pipe(Effect.zipRight(hints.publish(leaderTopic, "")))
    }).pipe(
      Effect.interruptible,
      Effect.timeout(resignTimeout),
      Effect.catchAll((error) => Effect.logDebug("could not resign as leader; the lease will expire", error))
    )
  )
  yield* hints.subscribe(leaderTopic, latch.open)
  yield* campaign
  const campaigning = single({
    name: "leader",
    schedule: wakeable(Schedule.spaced(every), latch.openedWithin),
    runAtStart: false,
    run: campaign
  })
  yield* Effect.forkScoped(repeatLoop(campaigning))
  const gauge = metrics.series(leads, {})
  yield* metrics.onRead(Effect.map(SubscriptionRef.get(current), (term) => gauge.set(Option.isSome(term) ? 1 : 0)))
  yield* Effect.addFinalizer(() => Effect.sync(() => gauge.set(0)))

  return Leader.of({
    term: SubscriptionRef.get(current),
    whileLeading,
    runLoop: (loopOf) =>
      whileLeading((term) => {
        const loop = loopOf(term)
        return repeatCounted({ ...loop, steps: loop.steps.map((step) => endingTermOnLoss(term, step)) })
      })
  })
})
