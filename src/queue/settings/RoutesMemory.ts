import { Effect, Layer } from "effect"
import { type Decide, decide, faultOf, Routes } from "./Routes.js"

export const layer: Layer.Layer<Routes> = Layer.sync(Routes, () => {
  const known = new Map<string, string>()
  const all = () =>
    [...known].map(([prefix, queue]) => ({ prefix, queue })).sort((a, b) => (a.prefix < b.prefix ? -1 : 1))
  let current: Decide = decide([])
  return {
    register: (declared) =>
      Effect.suspend(() => {
        const fault = faultOf(declared)
        if (fault !== undefined) return fault
        for (const [prefix, queue] of Object.entries(declared)) {
          if (queue === null) known.delete(prefix)
          else known.set(prefix, queue)
        }
        current = decide(all())
        return Effect.void
      }),
    all: Effect.sync(all),
    current: Effect.sync(() => current)
  }
})
