import { Clock, Context, Duration, Effect, Fiber } from "effect"

/** A clock of tests, which needs no fiber to wait. */
export interface AlarmClock extends Clock.Clock {
  /**
   * Calls `ring` after a delay in milliseconds, when a fiber that the given one had started to sleep would have ended. Returns
   * a function that cancels the alarm. The end of the fiber cancels it too.
   */
  readonly alarm: (fiber: Fiber.RuntimeFiber<unknown, unknown>, delay: number, ring: () => void) => () => void
}

const isAlarmClock = (clock: Clock.Clock): clock is AlarmClock => "alarm" in clock

/**
 * Waits with an alarm of the current fiber, which ends with the fiber. `wait` gets a function that sets the alarm: it takes what
 * the alarm calls, and returns a function that cancels it.
 */
export const withAlarm = <A, E, R>(
  duration: Duration.DurationInput,
  wait: (setAlarm: (ring: () => void) => () => void) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.withFiberRuntime((waiting) => {
    const clock = Context.get(waiting.currentDefaultServices, Clock.Clock)
    if (isAlarmClock(clock)) return wait((ring) => clock.alarm(waiting, Duration.toMillis(duration), ring))
    return Effect.flatMap(Effect.fork(Effect.interruptible(Effect.sleep(duration))), (alarm) =>
      wait((ring) => {
        alarm.addObserver(ring)
        return () => alarm.unsafeInterruptAsFork(alarm.id())
      })
    )
  })

/**
 * Like Effect.timeoutFail: interrupts the effect after the duration, waits until it has ended, and fails. Takes a third of the
 * operations on a clock with alarms, and does not merge the fiber references of the effect into those of the current fiber. An
 * interruption reaches the effect when the current fiber ends: use it in fibers that end when they are interrupted.
 */
export const timeoutFail = <A, E, E2, R>(
  effect: Effect.Effect<A, E, R>,
  { duration, onTimeout }: { readonly duration: Duration.DurationInput; readonly onTimeout: () => E2 }
): Effect.Effect<A, E | E2, R> =>
  Effect.flatMap(Effect.fork(effect), (running) =>
    withAlarm(duration, (setAlarm) =>
      Effect.async<A, E | E2>((resume) => {
        const cancel = setAlarm(() => resume(Effect.zipRight(Fiber.interrupt(running), Effect.failSync(onTimeout))))
        running.addObserver((exit) => {
          cancel()
          resume(exit)
        })
      })
    )
  )
