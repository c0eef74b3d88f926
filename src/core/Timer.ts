import { type Clock, Duration, Effect, Exit, Fiber, Option } from "effect"

// Timers that start fewer fibers than `Effect.timeout`: none for the timer itself on a clock of tests and simulations, one
// on the machine's clock. A pod starts several of them per second.

/** A method of clocks that can call back after a duration without a fiber, such as those of tests and simulations. */
export const callAfterKey: unique symbol = Symbol.for("nightshift/core/Timer/callAfter")

export interface CallbackClock extends Clock.Clock {
  /** Returns a function that cancels the call. */
  readonly [callAfterKey]: (millis: number, call: () => void) => () => void
}

const isCallbackClock = (clock: Clock.Clock): clock is CallbackClock => callAfterKey in clock

/** Calls back after a duration. Returns a function that cancels the call. */
export const callAfter = (duration: Duration.DurationInput, call: () => void): Effect.Effect<() => void> =>
  Effect.clockWith((clock) => {
    const delay = Duration.decode(duration)
    if (isCallbackClock(clock)) return Effect.sync(() => clock[callAfterKey](Duration.toMillis(delay), call))
    return Effect.map(Effect.forkDaemon(clock.sleep(delay)), (alarm) => {
      alarm.addObserver((exit) => {
        if (Exit.isSuccess(exit)) call()
      })
      return () => alarm.unsafeInterruptAsFork(alarm.id())
    })
  })

/**
 * Like `Effect.timeoutOption`: none if the effect takes longer, after it was interrupted and its finalizers have run.
 * Changes of FiberRefs inside the effect stay inside.
 */
export const timeoutOption = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  duration: Duration.DurationInput
): Effect.Effect<Option.Option<A>, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDaemon(restore(effect)), (fiber) => {
      let isLate = false
      const interrupt = () => {
        isLate = true
        fiber.unsafeInterruptAsFork(fiber.id())
      }
      return Effect.flatMap(callAfter(duration, interrupt), (cancel) =>
        Effect.onInterrupt(restore(exitOf(fiber)), () =>
          Effect.zipRight(Effect.sync(cancel), Fiber.interrupt(fiber))
        ).pipe(
          Effect.flatMap((exit) => {
            cancel()
            return isLate ? Effect.succeedNone : Exit.map(exit, Option.some)
          })
        )
      )
    })
  )

/** Like `Fiber.await`, without a second message to the fiber. */
const exitOf = <A, E>(fiber: Fiber.RuntimeFiber<A, E>): Effect.Effect<Exit.Exit<A, E>> =>
  Effect.async((resume) => fiber.addObserver((exit) => resume(Effect.succeed(exit))))
