import { type Duration, Effect } from "effect"

/** Wakes a loop that sleeps. */
export interface Poke {
  readonly now: () => void
  /** Completes when it is poked; at once when it was since the last time. */
  readonly asked: Effect.Effect<void>
  /** The same, and after so long at the latest. */
  readonly orAfter: (duration: Duration.DurationInput) => Effect.Effect<void>
}

export const makePoke = (): Poke => {
  let pending = false
  let wake: (() => void) | undefined
  const asked = Effect.async<void>((resume) => {
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
  return {
    now: () => {
      pending = true
      wake?.()
    },
    asked,
    orAfter: (duration) => Effect.raceFirst(Effect.sleep(duration), asked)
  }
}
