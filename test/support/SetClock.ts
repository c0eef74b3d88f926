import { Clock, Effect } from "effect"

/** How another process sees the time: its clock is set differently by this much, and its steady clock runs as ours does. */
export const setBy = (
  millis: number
): Effect.Effect<<A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>> =>
  Effect.map(Effect.clock, (clock) => {
    const now = () => clock.unsafeCurrentTimeMillis() + millis
    // One clock for all that this process does: what it watches is remembered by its clock.
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
