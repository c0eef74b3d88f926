import { Effect, Scope } from "effect"

// Finalizers that only change objects in memory. A finalizer of Effect runs with the fiber references of the fiber that
// added it. It compares all references of both fibers for that, which takes longer than the change.

/** Calls `leave` when the Scope closes. */
export const whenClosed = (leave: () => void): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(Effect.scope, (scope) => Scope.addFinalizer(scope, Effect.sync(leave)))

/** Calls `join`, and `leave` when the Scope closes. An interruption in between is harmless: `leave` may run without `join`. */
export const untilClosed = (join: () => void, leave: () => void): Effect.Effect<void, never, Scope.Scope> =>
  Effect.suspend(() => {
    let isClosed = false
    const left = () => {
      isClosed = true
      leave()
    }
    return Effect.map(whenClosed(left), () => {
      if (!isClosed) join()
    })
  })
