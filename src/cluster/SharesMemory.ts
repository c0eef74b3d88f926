import { Effect, Layer } from "effect"
import { Leadership } from "./Leadership.js"
import { Shares } from "./Shares.js"
import { ShareTable } from "./ShareTableMemory.js"

export const layer: Layer.Layer<Shares, never, Leadership | ShareTable> = Layer.effect(
  Shares,
  Effect.gen(function* () {
    const table = yield* ShareTable
    const leadership = yield* Leadership
    return {
      all: Effect.sync(table.all),
      assign: (term, shares) =>
        Effect.zipRight(
          leadership.assertTerm(term),
          Effect.sync(() => shares.forEach(table.put))
        )
    }
  })
)
