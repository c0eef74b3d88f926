import { Clock, Duration, Effect, Layer } from "effect"

interface SteppableClock extends Clock.Clock {
  readonly step: (millis: number) => void
}

const isSteppable = (clock: Clock.Clock): clock is SteppableClock => "step" in clock

const start = Date.UTC(2030, 0, 1)

/** Time is frozen between steps; sleeping uses real time, as with the database's clock. */
const make = (): SteppableClock => {
  const machine = Clock.make()
  let millis = start
  const nanos = () => BigInt(millis) * 1_000_000n
  return {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => millis,
    unsafeCurrentTimeNanos: nanos,
    currentTimeMillis: Effect.sync(() => millis),
    currentTimeNanos: Effect.sync(nanos),
    sleep: machine.sleep,
    step: (by) => {
      millis += by
    }
  }
}

/** Sets Effect's Clock to one that only `advance` moves, for tests that wait for real events but not for time. */
export const layer: Layer.Layer<never> = Layer.unwrapEffect(Effect.sync(() => Layer.setClock(make())))

/** Advances the steppable Clock of the current fiber. */
export const advance = (by: Duration.DurationInput): Effect.Effect<void> =>
  Effect.clockWith((clock) =>
    isSteppable(clock)
      ? Effect.sync(() => clock.step(Duration.toMillis(by)))
      : Effect.dieMessage("the Clock here is not steppable: provide SteppableClock.layer")
  )
