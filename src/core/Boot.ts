import { Clock, Context, Effect, Layer } from "effect"
import { makeGenerator, type PodId } from "./Ids.js"

/**
 * The id and start time of this process, whether or not it runs jobs. Use the layer, which is built once per process: counts,
 * samples and the pod's row share the id.
 */
export class Boot extends Context.Tag("nightshift/core/Boot")<
  Boot,
  {
    readonly id: PodId
    /** Epoch milliseconds. */
    readonly startedAt: number
  }
>() {
  static readonly make: Effect.Effect<typeof Boot.Service> = Effect.gen(function* () {
    const ids = yield* makeGenerator
    const startedAt = yield* Clock.currentTimeMillis
    return { id: ids.pod(startedAt), startedAt }
  })

  static readonly layer: Layer.Layer<Boot> = Layer.effect(Boot, Boot.make)
}
