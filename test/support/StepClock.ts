import { Clock, Duration, Effect, Layer } from "effect"

// A clock that jumps from one sleeper to the next. Effect's TestClock takes milliseconds per wakeup, which is too slow
// for a cluster with a dozen loops per pod; this one takes a few turns of the event loop. For tests in memory, where
// all work of an instant is finished after a few turns.

interface Sleeper {
  readonly at: number
  readonly wake: () => void
}

interface StepClock extends Clock.Clock {
  readonly advance: (millis: number) => Effect.Effect<void>
  readonly set: (millis: number) => void
}

const isStepClock = (clock: Clock.Clock): clock is StepClock => "advance" in clock

/** Lets all work run that does not wait for time. */
const breathe = Effect.async<void>((resume) => {
  setImmediate(() => setImmediate(() => resume(Effect.void)))
})

const make = (): StepClock => {
  const sleepers = new Set<Sleeper>()
  let millis = 0
  let setBy = 0

  const next = (end: number): number => {
    let at = Number.POSITIVE_INFINITY
    for (const sleeper of sleepers) at = Math.min(at, sleeper.at)
    return at <= end ? at : Number.POSITIVE_INFINITY
  }

  const advance = (by: number) =>
    Effect.gen(function* () {
      const end = millis + by
      yield* breathe
      for (let at = next(end); at <= end; at = next(end)) {
        millis = Math.max(millis, at)
        // In the order they went to sleep.
        for (const sleeper of [...sleepers].filter((each) => each.at <= millis)) sleeper.wake()
        yield* breathe
      }
      millis = end
    })

  return {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => millis + setBy,
    unsafeCurrentTimeNanos: () => BigInt(millis) * 1_000_000n,
    currentTimeMillis: Effect.sync(() => millis + setBy),
    currentTimeNanos: Effect.sync(() => BigInt(millis) * 1_000_000n),
    sleep: (duration) =>
      Effect.async<void>((resume) => {
        const sleeper: Sleeper = {
          at: millis + Duration.toMillis(duration),
          wake: () => {
            sleepers.delete(sleeper)
            resume(Effect.void)
          }
        }
        sleepers.add(sleeper)
        return Effect.sync(() => void sleepers.delete(sleeper))
      }),
    advance,
    set: (by) => {
      setBy += by
    }
  }
}

/** Sets Effect's Clock to one that only `advance` moves, and that wakes sleepers at their time. */
export const layer: Layer.Layer<never> = Layer.unwrapEffect(Effect.sync(() => Layer.setClock(make())))

/** Advances time and runs everything that becomes due, at its own time. */
export const advance = (by: Duration.DurationInput): Effect.Effect<void> =>
  Effect.clockWith((clock) =>
    isStepClock(clock)
      ? clock.advance(Duration.toMillis(by))
      : Effect.dieMessage("the Clock here does not step: provide StepClock.layer")
  )

/** Sets the wall clock as an operator would: monotonic time does not advance. */
export const set = (by: Duration.DurationInput): Effect.Effect<void> =>
  Effect.clockWith((clock) =>
    isStepClock(clock)
      ? Effect.sync(() => clock.set(Duration.toMillis(by)))
      : Effect.dieMessage("the Clock here cannot be set: provide StepClock.layer")
  )
