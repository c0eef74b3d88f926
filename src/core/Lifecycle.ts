import { Context, Deferred, Effect, Layer } from "effect"

/** State of this process: starting, running, draining, or failed. */
export class Lifecycle extends Context.Tag("nightshift/core/Lifecycle")<
  Lifecycle,
  {
    /** What must still happen before the process counts as started, as sentences for operators. */
    readonly starting: Effect.Effect<ReadonlyArray<string>>
    /** Adds something that must happen before the process counts as started. The returned effect reports it as done. */
    readonly startsAfter: (missing: string) => Effect.Effect<Effect.Effect<void>>
    /** Completes when everything added by `startsAfter` is done. */
    readonly untilStarted: Effect.Effect<void>
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
      const missing = new Map<Deferred.Deferred<void>, string>()
      return {
        starting: Effect.sync(() => [...missing.values()]),
        startsAfter: (what) =>
          Effect.map(Deferred.make<void>(), (done) => {
            missing.set(done, what)
            return Effect.suspend(() => {
              missing.delete(done)
              return Deferred.succeed(done, undefined)
            })
          }),
        untilStarted: Effect.suspend(() => Effect.forEach(missing.keys(), Deferred.await, { discard: true })),
        draining: Deferred.isDone(draining),
        drain: Deferred.succeed(draining, undefined),
        untilDraining: Deferred.await(draining),
        collapse: (error) => Deferred.fail(collapsed, error),
        collapsed: Deferred.await(collapsed)
      }
    })
  )
}
