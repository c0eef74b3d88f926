import { Cause, Context, Duration, Effect, Fiber, Option, Schedule, type Scope } from "effect"
import { Leadership, TermEnded } from "../../cluster/Leadership.js"
import { timeoutFail } from "../../core/Alarm.js"
import { steadyNow } from "../../core/ChangeWatch.js"
import * as DurationText from "../../core/DurationText.js"
import type { Term } from "../../core/Ids.js"
import { type LeaderLoop, repeated, type Step } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import { untilClosed, whenClosed } from "../../core/Registration.js"
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
  let current: Option.Option<Term> = Option.none()
  /** Start and interrupt the work of this pod as leader. */
  const followers = new Set<(term: Option.Option<Term>) => Effect.Effect<void>>()
  const every = Duration.times(lease, 1 / 3)
  const latch = makeLatch()
  let leadsUntil = Number.NEGATIVE_INFINITY
  /** True when the last campaign got no answer, so this pod may hold the lease without knowing it. */
  let isUncertain = false

  /** Uninterruptible, because the work of the term that ends may be what ended it. All of its work must end. */
  const set = (term: Option.Option<Term>) =>
    Effect.gen(function* () {
      if (Option.getEquivalence<Term>((a, b) => a === b)(current, term)) return
      current = term
      for (const follow of followers) yield* follow(term)
      yield* Effect.logInfo(
        Option.isSome(term) ? `leading the cluster in term ${term.value}` : "no longer leading the cluster"
      )
    }).pipe(Effect.uninterruptible)

  const campaign = Effect.gen(function* () {
    const sentAt = yield* steadyNow
    isUncertain = true
    const term = yield* timeoutFail(leadership.campaign(pod.id, lease), {
      duration: every,
      onTimeout: () => new Cause.TimeoutException(`no answer within ${DurationText.format(every)}`)
    })
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
    Effect.suspend(() => (Option.contains(current, term) ? set(Option.none()) : Effect.void))

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
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const context = yield* Effect.context<R>()
      let running: Fiber.RuntimeFiber<void> | undefined
      const follow = (term: Option.Option<Term>): Effect.Effect<void> =>
        Effect.suspend(() => {
          const before = running
          // Without waiting for its end: it may be what has ended the term.
          if (Option.isNone(term)) return before === undefined ? Effect.void : Fiber.interruptFork(before)
          const ended = before === undefined ? Effect.void : Fiber.interrupt(before)
          const next = Effect.zipRight(ended, Effect.interruptible(Effect.provide(work(term.value), context)))
          return Effect.map(Effect.forkIn(next, scope), (fiber) => {
            running = fiber
          })
        })
      yield* untilClosed(
        () => void followers.add(follow),
        () => void followers.delete(follow)
      )
      yield* follow(current)
    })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function* () {
      const term = current
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
  const loop = repeated({
    name: "leader",
    schedule: wakeable(Schedule.spaced(every), latch.openedWithin),
    runAtStart: false,
    run: campaign
  })
  yield* Effect.forkScoped(loop)
  const gauge = metrics.series(leads, {})
  yield* metrics.onRead(Effect.sync(() => gauge.set(Option.isSome(current) ? 1 : 0)))
  yield* whenClosed(() => gauge.set(0))

  return Leader.of({
    term: Effect.sync(() => current),
    whileLeading,
    runLoop: (loopOf) =>
      whileLeading((term) => {
        const loop = loopOf(term)
        return repeatCounted({ ...loop, steps: loop.steps.map((step) => endingTermOnLoss(term, step)) })
      })
  })
})
