import { Context, Deferred, Effect, Layer } from "effect"

/** State of this process: running, draining, or failed. */
export class Lifecycle extends Context.Tag("nightshift/core/Lifecycle")<
  Lifecycle,
  {
    readonly draining: Effect.Effect<boolean>
    /** Stops the process from starting new work. Cannot be undone. */
    readonly drain: Effect.Effect<void>
    /** Completes when `drain` is called. */
    readonly untilDraining: Effect.Effect<void>
    /** Reports an unrecoverable error; the process exits with it. */
    readonly collapse: (error: Error) => Effect.Effect<void>
    /** Fails with the error passed to `collapse`. Never completes otherwise. */
    readonly collapsed: Effect.Effect<never, Error>
  }
>() {
  static readonly layer: Layer.Layer<Lifecycle> = Layer.effect(
    Lifecycle,
    Effect.gen(function* () {
      const draining = yield* Deferred.make<void>()
      const collapsed = yield* Deferred.make<never, Error>()
      return {
        draining: Deferred.isDone(draining),
        drain: Deferred.succeed(draining, undefined),
        untilDraining: Deferred.await(draining),
        collapse: (error) => Deferred.fail(collapsed, error),
        collapsed: Deferred.await(collapsed)
      }
    })
  )
}
