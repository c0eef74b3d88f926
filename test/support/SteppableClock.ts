import { Clock, Duration, Effect, Layer } from "effect"

interface SteppableClock extends Clock.Clock {
  readonly step: (millis: number) => void
}

const isSteppable = (clock: Clock.Clock): clock is SteppableClock => "step" in clock

const start = Date.UTC(2030, 0, 1)

/** Time is frozen between steps. By default, sleeping uses real time, as with the database's clock. */
export const make = (
  sleep: (duration: Duration.Duration, step: SteppableClock["step"]) => Effect.Effect<void> = Clock.make().sleep
): SteppableClock => {
  let millis = start
  const nanos = () => BigInt(millis) * 1_000_000n
  const step = (by: number) => {
    millis += by
  }
  return {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => millis,
    unsafeCurrentTimeNanos: nanos,
    currentTimeMillis: Effect.sync(() => millis),
    currentTimeNanos: Effect.sync(nanos),
    sleep: (duration) => sleep(duration, step),
    step
  }
}

/** Sets Effect's Clock to one that only `advance` moves, for tests that wait for real events but not for time. */
export const layer: Layer.Layer<never> = Layer.unwrapEffect(Effect.sync(() => Layer.setClock(make())))

const step = (millis: number): Effect.Effect<void> =>
  Effect.clockWith((clock) =>
    isSteppable(clock)
      ? Effect.sync(() => clock.step(millis))
      : Effect.dieMessage("the Clock here is not steppable: provide SteppableClock.layer")
  )

/** Advances the steppable Clock of the current fiber. */
export const advance = (by: Duration.DurationInput): Effect.Effect<void> => step(Duration.toMillis(by))

/** Sets it back. */
export const setBack = (by: Duration.DurationInput): Effect.Effect<void> => step(-Duration.toMillis(by))
