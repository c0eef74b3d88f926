import { Effect, FiberRef } from "effect"

const watching: FiberRef.FiberRef<boolean> = FiberRef.unsafeMake(false)

/**
 * Marks an effect that only limits how long something else takes. The virtual clock of tests does not take its sleep for a
 * sleep of what it limits, which may be waiting for a promise that needs real time.
 */
export const watchdog: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> = Effect.locally(
  watching,
  true
)

/** Whether the fiber runs such an effect. */
export const isWatchdog = (fiber: { getFiberRef<A>(ref: FiberRef.FiberRef<A>): A }): boolean =>
  fiber.getFiberRef(watching)
