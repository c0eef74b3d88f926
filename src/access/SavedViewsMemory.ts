import { Clock, Effect, Layer } from "effect"
import { makeGenerator } from "../core/Ids.js"
import { limits, type SavedView, SavedViews, TooManyViews, ViewExists, ViewNotFound } from "./SavedViews.js"

const make = Effect.gen(function* () {
  const ids = yield* makeGenerator
  const known = new Map<string, SavedView>()
  const isTaken = (name: string, by?: string) =>
    [...known.values()].some((view) => view.name === name && view.id !== by)

  return SavedViews.of({
    list: Effect.sync(() => [...known.values()]),
    create: (view) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        if (isTaken(view.name)) return yield* new ViewExists({ name: view.name })
        if (known.size >= limits.views) return yield* new TooManyViews({ most: limits.views })
        const made: SavedView = { ...view, id: ids.view(now), createdAt: now }
        known.set(made.id, made)
        return made
      }),
    change: (id, patch) =>
      Effect.gen(function* () {
        const before = known.get(id)
        if (before === undefined) return yield* new ViewNotFound({ id })
        const after: SavedView = { ...before, ...patch }
        if (isTaken(after.name, id)) return yield* new ViewExists({ name: after.name })
        known.set(id, after)
        return { before, after }
      }),
    remove: (id) =>
      Effect.suspend(() => {
        const view = known.get(id)
        if (view === undefined) return new ViewNotFound({ id })
        known.delete(id)
        return Effect.succeed(view)
      })
  })
})

/** In memory, for tests. */
export const layer: Layer.Layer<SavedViews> = Layer.effect(SavedViews, make)
