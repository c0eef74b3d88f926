import { type Duration, Effect } from "effect"

/** Wakes a sleeping loop. */
export interface Latch {
  readonly open: () => void
  /** Completes when the latch is opened; at once if it was opened since the last wait. */
  readonly opened: Effect.Effect<void>
  /** Like `opened`, with a timeout. */
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
  return {
    open: () => {
      pending = true
      wake?.()
    },
    opened,
    openedWithin: (duration) => Effect.raceFirst(Effect.sleep(duration), opened)
  }
}
