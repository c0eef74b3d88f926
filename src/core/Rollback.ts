import { Effect, type Fiber, FiberRef } from "effect"

// Rollback for the tables in memory: every write registers an undo function, and a failed transaction runs them in
// reverse.

/** Undo functions of the current transaction, latest last; undefined outside a transaction. */
const log: FiberRef.FiberRef<Array<() => void> | undefined> = FiberRef.unsafeMake<Array<() => void> | undefined>(
  undefined
)

/** Registers an undo function that runs if the current transaction fails. */
export const remember = (undo: () => void): Effect.Effect<void> =>
  Effect.withFiberRuntime((fiber) => {
    rememberIn(fiber, undo)
    return Effect.void
  })

/** `remember` as a plain function, for the transaction of the given fiber. */
export const rememberIn = (fiber: Fiber.RuntimeFiber<unknown, unknown>, undo: () => void): void =>
  void fiber.getFiberRef(log)?.push(undo)

/**
 * Runs the effect as a transaction in memory, or as part of the enclosing one. `begun` receives a function that rolls
 * back an unfinished transaction, for simulations that kill the process running it.
 */
export const transaction = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  begun: (takeBack: () => void) => void = () => {}
): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) => {
    const undos: Array<() => void> = []
    const takeBack = () => {
      for (const undo of undos.splice(0).reverse()) undo()
    }
    begun(takeBack)
    return Effect.flatMap(FiberRef.getAndSet(log, undos), (outer) =>
      Effect.matchCauseEffect(restore(effect), {
        onFailure: (cause) => {
          takeBack()
          return Effect.zipRight(FiberRef.set(log, outer), Effect.failCause(cause))
        },
        onSuccess: (value) => {
          outer?.push(...undos.splice(0))
          return Effect.as(FiberRef.set(log, outer), value)
        }
      })
    )
  })
