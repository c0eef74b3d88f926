import { Effect, Exit, FiberRef } from "effect"

// PostgreSQL takes back what a failed transaction wrote. Tables in memory do the same by remembering, for each write, how it
// is taken back.

/** What the surrounding transaction in memory would have to take back, latest last; nothing outside of one. */
const log: FiberRef.FiberRef<Array<() => void> | undefined> = FiberRef.unsafeMake<Array<() => void> | undefined>(
  undefined
)

/** Something was written: this is how it is taken back, should the surrounding transaction fail. */
export const remember = (undo: () => void): Effect.Effect<void> =>
  Effect.map(FiberRef.get(log), (undos) => void undos?.push(undo))

/**
 * Runs the effect as a transaction in memory, or as part of the one around it. `begun` gets what takes it back half-way, for
 * those who may lose whoever runs it.
 */
export const transaction = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  begun: (takeBack: () => void) => void = () => {}
): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const undos: Array<() => void> = []
    const takeBack = () => {
      for (const undo of undos.splice(0).reverse()) undo()
    }
    begun(takeBack)
    return Effect.onExit(Effect.locally(effect, log, undos), (exit) =>
      Exit.isSuccess(exit)
        ? Effect.map(FiberRef.get(log), (outer) => void outer?.push(...undos.splice(0)))
        : Effect.sync(takeBack)
    )
  })
