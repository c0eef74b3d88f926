import { Context, Deferred, Effect, FiberId, Layer, type Scope } from "effect"

/** Tells those who wait for work, in this process, that there may be some. A hint: who misses one finds the job by polling. */
export class Wakeups extends Context.Tag("nightshift/queue/Wakeups")<
  Wakeups,
  {
    /** A job of this queue may be due now. */
    readonly wake: (queue: string) => Effect.Effect<void>
    /** Any queue may have work: something was missed. */
    readonly wakeAll: Effect.Effect<void>
    /** Completes when somebody waits for work here for the first time. */
    readonly awaited: Effect.Effect<void>
    /** Calls back at every wake of the queue until the Scope closes. */
    readonly onWake: (queue: string, listener: () => void) => Effect.Effect<void, never, Scope.Scope>
  }
>() {}

/** Within the process, and at once: the listeners have run when `wake` is over. */
export const layer: Layer.Layer<Wakeups> = Layer.sync(Wakeups, () => {
  const first = Deferred.unsafeMake<void>(FiberId.none)
  // A wrapper per registration, so that a function that listens twice is called twice and leaves one at a time.
  const listeners = new Map<string, Set<{ readonly call: () => void }>>()
  return {
    wake: (queue) => Effect.sync(() => [...(listeners.get(queue) ?? [])].forEach(({ call }) => void call())),
    wakeAll: Effect.sync(() => [...listeners.values()].flatMap((all) => [...all]).forEach(({ call }) => void call())),
    awaited: Deferred.await(first),
    onWake: (queue, listener) => {
      const own = { call: listener }
      const join = Effect.sync(() => {
        Deferred.unsafeDone(first, Effect.void)
        const others = listeners.get(queue)
        if (others === undefined) listeners.set(queue, new Set([own]))
        else others.add(own)
      })
      const leave = Effect.sync(() => {
        const all = listeners.get(queue)
        all?.delete(own)
        if (all?.size === 0) listeners.delete(queue)
      })
      return Effect.acquireRelease(join, () => leave)
    }
  }
})
