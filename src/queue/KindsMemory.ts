import { Effect, Layer } from "effect"
import { UnknownKind } from "./JobErrors.js"
import { Kinds, type RegisteredKind } from "./Kinds.js"

export const layer: Layer.Layer<Kinds> = Layer.sync(Kinds, () => {
  const known = new Map<string, RegisteredKind>()
  return {
    register: (kinds) =>
      Effect.sync(() => {
        for (const kind of kinds) {
          if ((known.get(kind.name)?.version ?? 0) <= kind.version) known.set(kind.name, kind)
        }
      }),
    find: (name) =>
      Effect.suspend(() => {
        const kind = known.get(name)
        return kind === undefined ? new UnknownKind({ kind: name }) : Effect.succeed(kind)
      }),
    all: Effect.sync(() => [...known.values()].sort((left, right) => (left.name < right.name ? -1 : 1)))
  }
})
