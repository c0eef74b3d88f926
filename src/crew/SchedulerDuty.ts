import { Clock, Duration, Effect, Option, type Scope } from "effect"
import type { Term } from "../core/Term.js"
import { Schedules } from "../schedule/Schedules.js"
import type { LeadersDuty } from "./Leader.js"
import { makePoke } from "./Poke.js"
import * as Scheduler from "./Scheduler.js"
import { SchedulerConfig } from "./SchedulerConfig.js"

/** How long to leave in peace what could not fire. */
const calm = Duration.seconds(1)

/** Fires schedules while this pod leads: at its election, at every due instant, and when somebody changes a schedule. */
export const make: Effect.Effect<LeadersDuty, never, Scheduler.Needs | Scope.Scope> = Effect.gen(function* () {
  const schedules = yield* Schedules
  const { poll } = yield* SchedulerConfig
  const context = yield* Effect.context<Scheduler.Needs>()
  const poke = makePoke()
  yield* schedules.onChange(poke.now)
  let stuck = false

  const fire = (term: Term) =>
    Effect.gen(function* () {
      // Until it is known better: a pass that fails or is cut off has left something due behind.
      stuck = true
      const report = yield* Scheduler.pass(term)
      stuck = report.failed + report.superseded > 0
      return Scheduler.noteworthy(report)
    }).pipe(Effect.provide(context))

  /** How long until the next one is due. */
  const untilNext = Effect.gen(function* () {
    const next = yield* schedules.nextInstant
    const now = yield* Clock.currentTimeMillis
    const wait = Option.match(next, { onNone: () => poll, onSome: (instant) => Duration.millis(instant - now) })
    return Duration.max(wait, stuck ? calm : Duration.zero)
  }).pipe(
    Effect.catchAll((error) =>
      Effect.as(Effect.logWarning("could not ask when the next schedule is due, trying again", error), calm)
    )
  )

  return {
    loop: (term) => ({
      name: "scheduler",
      about: "firing schedules when they are due",
      every: poll,
      atStart: true,
      steps: [{ name: "fire", deadline: "30 seconds", run: fire(term) }]
    }),
    poke: {
      ...poke,
      orAfter: (most) => Effect.flatMap(untilNext, (wait) => poke.orAfter(Duration.min(wait, most)))
    }
  }
})
