import { Context, Deferred, Effect, FiberId, Layer, type Scope } from "effect"
import { untilClosed } from "../core/Registration.js"

/** NOTIFY channel that wakes the workers of other processes. */
export const workChannel = (schema: string): string => `${schema}_work`

/**
 * Wakes the workers of this process when a queue may have work. Only a hint: a worker that misses one finds the job by
 * polling.
 */
export class Wakeups extends Context.Tag("nightshift/queue/Wakeups")<
  Wakeups,
  {
    /** Tells the workers of this process that the queue may have work. */
    readonly wake: (queue: string) => Effect.Effect<void>
    /** Like `wake`, as a plain call: starting a fiber takes longer than waking a worker. */
    readonly unsafeWake: (queue: string) => void
    /** Signals that any queue may have work, because notifications may have been missed. */
    readonly wakeAll: Effect.Effect<void>
    /** Completes when the first listener registers. */
    readonly awaited: Effect.Effect<void>
    /** Calls the listener at every wake of the queue until the Scope closes. */
    readonly onWake: (queue: string, listener: () => void) => Effect.Effect<void, never, Scope.Scope>
  }
>() {}

/** In-process and synchronous: listeners have run when `wake` returns. */
export const layer: Layer.Layer<Wakeups> = Layer.sync(Wakeups, () => {
  const first = Deferred.unsafeMake<void>(FiberId.none)
  // One wrapper per registration: a function registered twice is called twice, and each registration is removed
  // separately.
  const listeners = new Map<string, Set<{ readonly call: () => void }>>()
  const unsafeWake = (queue: string) => [...(listeners.get(queue) ?? [])].forEach(({ call }) => void call())
  return {
    wake: (queue) => Effect.sync(() => unsafeWake(queue)),
    unsafeWake,
    wakeAll: Effect.sync(() => [...listeners.values()].flatMap((all) => [...all]).forEach(({ call }) => void call())),
    awaited: Deferred.await(first),
    onWake: (queue, listener) => {
      const own = { call: listener }
      const join = () => {
        Deferred.unsafeDone(first, Effect.void)
        const others = listeners.get(queue)
        if (others === undefined) listeners.set(queue, new Set([own]))
        else others.add(own)
      }
      const leave = () => {
        const all = listeners.get(queue)
        all?.delete(own)
        if (all?.size === 0) listeners.delete(queue)
      }
      return untilClosed(join, leave)
    }
  }
})
