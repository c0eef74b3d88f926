import { Duration, Effect, Option, type Scope } from "effect"
import type { Term } from "../core/Ids.js"
import type { LeaderLoop } from "../core/Loop.js"
import { makeLatch, until } from "../core/LoopSchedule.js"
import * as Scheduler from "./Scheduler.js"
import { SchedulerConfig } from "./SchedulerConfig.js"
import { Schedules } from "./Schedules.js"

/** Delay before a schedule that could not fire is retried. */
const retryDelay = Duration.seconds(1)

const instantOf = Option.getOrElse(() => Number.POSITIVE_INFINITY)

/** Fires schedules while this pod leads: at its election, when one is due, and when one is changed. */
export const make: Effect.Effect<LeaderLoop, never, Scheduler.Needs | Scope.Scope> = Effect.gen(function* () {
  const schedules = yield* Schedules
  const { poll } = yield* SchedulerConfig
  const scheduler = yield* Scheduler.make
  const clock = yield* Effect.clock
  const latch = makeLatch()
  yield* schedules.onChange(latch.open)
  /** The next instant with something to do, according to the last pass. */
  let idleUntil = 0

  const fire = (term: Term) =>
    Effect.gen(function* () {
      const now = clock.unsafeCurrentTimeMillis()
      // Provisional value, because a pass that fails or is interrupted may leave schedules due.
      idleUntil = now + Duration.toMillis(poll)
      const next = instantOf(yield* schedules.nextInstant)
      if (next > now) {
        idleUntil = next
        return {}
      }
      const report = yield* scheduler.pass(term)
      idleUntil =
        report.failed + report.superseded > 0
          ? now + Duration.toMillis(retryDelay)
          : instantOf(yield* schedules.nextInstant)
      return Scheduler.noteworthy(report)
    })

  return (term) => {
    let areRestored = false
    const restoreLastFires = Effect.suspend(() => {
      if (areRestored) return Effect.succeed({})
      return Effect.map(scheduler.restoreLastFires, () => {
        areRestored = true
        return {}
      })
    })
    return {
      name: "scheduler",
      about: "firing schedules when they are due",
      schedule: until((now) => Math.min(idleUntil, now + Duration.toMillis(poll)), latch.openedWithin),
      runAtStart: true,
      steps: [
        { name: "fire", timeout: "30 seconds", run: fire(term) },
        { name: "restoreLastFires", timeout: "10 seconds", run: restoreLastFires }
      ]
    }
  }
})
