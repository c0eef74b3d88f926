import { Duration, Effect, Schedule } from "effect"
import type { PassOutcome } from "./Loop.js"

// Schedules of background loops. Schedule.spaced is the usual one: each pause begins when a pass has ended. These change how
// long a pause is and what ends it.

type LoopSchedule = Schedule.Schedule<unknown, PassOutcome>

/**
 * A schedule whose pauses are spent in `wait`, which gets the delay and completes when the next pass is to run: a latch that an
 * event opens before the delay is over, or a wait for work that comes before it.
 */
export const pausing = (
  schedule: LoopSchedule,
  wait: (delay: Duration.Duration) => Effect.Effect<void>
): LoopSchedule => Schedule.modifyDelayEffect(schedule, (_, delay) => Effect.as(wait(delay), Duration.zero))

/** A loop without a clock: every pause ends when `event` completes. */
export const onEvent = (event: Effect.Effect<void>): LoopSchedule => pausing(Schedule.forever, () => event)

/** A pause as long as `delay` says after each pass, for loops that know when they are next needed. */
export const until = (delay: Effect.Effect<Duration.DurationInput>): LoopSchedule =>
  Schedule.addDelayEffect(Schedule.forever, () => delay)

/** `usual` after passes that succeeded and `failing` after those that did not; a success resets `failing`. */
export const backingOff = (usual: LoopSchedule, failing: LoopSchedule): LoopSchedule =>
  Schedule.makeWithState<readonly [unknown, unknown], PassOutcome, unknown>(
    [usual.initial, failing.initial],
    (now, outcome, [calm, troubled]) =>
      outcome === "ok"
        ? Effect.map(usual.step(now, outcome, calm), ([next, out, decision]) => [
            [next, failing.initial] as const,
            out,
            decision
          ])
        : Effect.map(failing.step(now, outcome, troubled), ([next, out, decision]) => [
            [calm, next] as const,
            out,
            decision
          ])
  )
