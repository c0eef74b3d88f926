import { Clock, Context, Effect, Layer } from "effect"
import { makeGenerator, type PodId } from "../core/Ids.js"

/** The id and start time of this process, whether or not it runs jobs. */
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
