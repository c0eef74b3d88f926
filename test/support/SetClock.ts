import { Clock, Effect } from "effect"

/** Runs as a process whose wall clock differs by this much; its monotonic clock runs like ours. */
export const setBy = (
  millis: number
): Effect.Effect<<A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>> =>
  Effect.map(Effect.clock, (clock) => {
    const now = () => clock.unsafeCurrentTimeMillis() + millis
    // One clock for the whole process, because watches are keyed by their clock.
    const other: Clock.Clock = {
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      unsafeCurrentTimeMillis: now,
      unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos(),
      currentTimeMillis: Effect.sync(now),
      currentTimeNanos: clock.currentTimeNanos,
      sleep: clock.sleep
    }
    return Effect.withClock(other)
  })
