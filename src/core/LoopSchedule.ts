import { Duration, Effect, type Fiber, Schedule, ScheduleDecision, ScheduleInterval, ScheduleIntervals } from "effect"
import { withAlarm } from "./Alarm.js"
import type { PassOutcome } from "./Loop.js"

// Schedules of background loops. Schedule.spaced is the usual one: each pause begins when a pass has ended. The functions here
// change how long a pause is and what ends it.

type LoopSchedule = Schedule.Schedule<unknown, PassOutcome>

/** The decision after a pause that was spent already. */
const nextPass = ScheduleDecision.continueWith(ScheduleInterval.after(0))

/**
 * A schedule whose pauses are spent in `wait`, which gets the delay and completes when the next pass is to run. With
 * `Latch.openedWithin` an event ends the pause early.
 */
export const wakeable = (
  schedule: LoopSchedule,
  wait: (delay: Duration.Duration) => Effect.Effect<void>
): LoopSchedule =>
  Schedule.makeWithState<unknown, PassOutcome, unknown>(schedule.initial, (now, outcome, state) =>
    Effect.flatMap(schedule.step(now, outcome, state), (stepped) => {
      const [next, out, decision] = stepped
      if (ScheduleDecision.isDone(decision)) return Effect.succeed(stepped)
      const delay = Duration.millis(ScheduleIntervals.start(decision.intervals) - now)
      return Effect.as(wait(delay), [next, out, nextPass] as const)
    })
  )

/** A schedule whose delays start at an event: a loop that is idle until there is something to do. */
export const after = (event: Effect.Effect<void>, schedule: LoopSchedule): LoopSchedule =>
  wakeable(schedule, (delay) => Effect.zipRight(event, Effect.sleep(delay)))

/**
 * A pause until the instant that `next` returns, for loops that know when they are needed next. It gets the current instant;
 * both are epoch milliseconds. The pauses are spent in `wait`, as those of `wakeable`.
 */
export const until = (
  next: (now: number) => number,
  wait: (delay: Duration.Duration) => Effect.Effect<void>
): LoopSchedule =>
  Schedule.makeWithState<void, PassOutcome, void>(undefined, (now) =>
    Effect.as(wait(Duration.millis(next(now) - now)), [undefined, undefined, nextPass] as const)
  )

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

/**
 * A loop without a clock: the next pass runs when `event` completes. After a failed pass the loop first waits for the delay
 * of `failing`, because an event that is always ready would make the loop spin.
 */
export const onEvent = (
  event: Effect.Effect<void>,
  failing: LoopSchedule = Schedule.spaced("1 second")
): LoopSchedule =>
  wakeable(backingOff(Schedule.forever, failing), (delay) =>
    Duration.toMillis(delay) === 0 ? event : Effect.zipRight(Effect.sleep(delay), event)
  )

/** Wakes a loop in its pause. */
export interface Latch {
  readonly open: () => void
  /** Forgets earlier calls of `open`. Called at the start of a pass, which handles what they announced. */
  readonly close: () => void
  /** Completes when the latch is opened, or at once if it was opened since the last wait. Closes the latch again. */
  readonly opened: Effect.Effect<void>
  /** Like `opened`, but completes after this duration at the latest. */
  readonly openedWithin: (duration: Duration.DurationInput) => Effect.Effect<void>
}

export const makeLatch = (): Latch => {
  let pending = false
  let wake: (() => void) | undefined
  const opened = Effect.async<void>((resume) => {
    wake = () => {
      wake = undefined
      pending = false
      resume(Effect.void)
    }
    if (pending) wake()
    return Effect.sync(() => {
      wake = undefined
    })
  })
  const openedBefore = (waiting: Fiber.RuntimeFiber<unknown, unknown>, setAlarm: (ring: () => void) => () => void) =>
    Effect.async<void>((resume) => {
      let cancel = () => {}
      const opening = () => {
        wake = undefined
        // Not a finalizer, which would take as many steps as the rest of the pause. The next wait finds the latch open.
        if (waiting.unsafePoll() !== null) return
        pending = false
        cancel()
        resume(Effect.void)
      }
      wake = opening
      if (pending) return opening()
      cancel = setAlarm(() => {
        if (wake === opening) wake = undefined
        resume(Effect.void)
      })
    })
  return {
    open: () => {
      pending = true
      wake?.()
    },
    close: () => {
      pending = false
    },
    opened,
    // Most pauses of a pod pass through here. One fiber for the alarm, or none, where a race would start two and await both.
    openedWithin: (duration) =>
      Effect.withFiberRuntime((waiting) =>
        pending ? opened : withAlarm(duration, (setAlarm) => openedBefore(waiting, setAlarm))
      )
  }
}
