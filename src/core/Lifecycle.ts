import { Context, Deferred, Effect, Layer } from "effect"

/** Whether this process takes new work, is on its way out, or has lost what it stands on. */
export class Lifecycle extends Context.Tag("nightshift/core/Lifecycle")<
  Lifecycle,
  {
    readonly draining: Effect.Effect<boolean>
    /** From now on nothing new is begun. There is no way back. */
    readonly drain: Effect.Effect<void>
    /** Completes when that has been said. */
    readonly untilDraining: Effect.Effect<void>
    /** Something this process cannot live without is gone; it should end with this error. */
    readonly collapse: (error: Error) => Effect.Effect<void>
    /** Fails when the process has collapsed, and otherwise never ends. */
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
