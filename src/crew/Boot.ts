import { Clock, Context, Effect, Layer } from "effect"
import { makeGenerator, type PodId } from "../core/Ids.js"

/** This boot of this process: the id under which it is known, whatever else it is. */
export class Boot extends Context.Tag("nightshift/crew/Boot")<
  Boot,
  {
    readonly id: PodId
    /** Epoch milliseconds. */
    readonly startedAt: number
  }
>() {
  static readonly layer: Layer.Layer<Boot> = Layer.effect(
    Boot,
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      const startedAt = yield* Clock.currentTimeMillis
      return { id: ids.pod(startedAt), startedAt }
    })
  )
}
