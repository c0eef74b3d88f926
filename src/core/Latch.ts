import { type Duration, Effect } from "effect"

/** Wakes a loop in its pause. */
export interface Latch {
  readonly open: () => void
  /** Completes when the latch is opened, or at once if it was opened since the last wait. Closes the latch again. */
  readonly opened: Effect.Effect<void>
  /** The same, and after this long at the latest. */
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
