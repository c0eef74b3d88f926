import { Context, Effect, Layer, Ref } from "effect"

/** Whether this process takes new work or is on its way out. */
export class Lifecycle extends Context.Tag("nightshift/core/Lifecycle")<
  Lifecycle,
  {
    readonly draining: Effect.Effect<boolean>
    /** From now on nothing new is begun. There is no way back. */
    readonly drain: Effect.Effect<void>
  }
>() {
  static readonly layer: Layer.Layer<Lifecycle> = Layer.effect(
    Lifecycle,
    Effect.map(Ref.make(false), (draining) => ({
      draining: Ref.get(draining),
      drain: Ref.set(draining, true)
    }))
  )
}
