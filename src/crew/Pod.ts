import { Clock, Context, Effect, Layer } from "effect"
import { makeGenerator, type PodId } from "../core/Ids.js"

/** This boot of this process. */
export class Pod extends Context.Tag("nightshift/crew/Pod")<Pod, { readonly id: PodId }>() {
  static readonly layer: Layer.Layer<Pod> = Layer.effect(
    Pod,
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      return { id: ids.pod(yield* Clock.currentTimeMillis) }
    })
  )
}
