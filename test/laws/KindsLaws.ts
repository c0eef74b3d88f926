import { expect } from "@effect/vitest"
import { Effect } from "effect"
import type { RegisteredKind } from "../../src/queue/Kinds.js"
import type { Law, Line } from "./Line.js"

const kind = (line: Line, more: Partial<RegisteredKind> = {}): RegisteredKind => ({
  name: `${line.name}.receipt`,
  queue: line.name,
  version: 2,
  attempts: 5,
  onDead: undefined,
  ...more
})

export const kindsLaws = (law: Law): void => {
  law("a registered kind is found by its name, whole", (line) =>
    Effect.gen(function* () {
      const onDead = { kind: "mourn", version: 1, queue: line.name, payload: { a: [1] }, attempts: 2 }
      const given = kind(line, { onDead, schema: '{"type": "object"}' })
      yield* line.kinds.register([given])
      expect(yield* line.kinds.find(given.name)).toEqual(given)
    })
  )

  law("a kind without a queue has none until one is registered", (line) =>
    Effect.gen(function* () {
      yield* line.kinds.register([kind(line, { queue: "default", routed: true })])
      expect(yield* line.kinds.find(kind(line).name)).toEqual(kind(line, { queue: "default", routed: true }))
      yield* line.kinds.register([kind(line)])
      expect(yield* line.kinds.find(kind(line).name)).toEqual(kind(line))
    })
  )

  law("an unregistered kind is unknown", (line) =>
    Effect.gen(function* () {
      const name = `${line.name}.nobody`
      expect(yield* Effect.flip(line.kinds.find(name))).toMatchObject({ _tag: "UnknownKind", kind: name })
    })
  )

  law("the latest registration wins, except that a lower version does not replace a higher one", (line) =>
    Effect.gen(function* () {
      yield* line.kinds.register([kind(line)])
      yield* line.kinds.register([kind(line, { attempts: 9 })])
      expect(yield* line.kinds.find(kind(line).name)).toEqual(kind(line, { attempts: 9 }))
      yield* line.kinds.register([kind(line, { version: 1, attempts: 3 })])
      expect(yield* line.kinds.find(kind(line).name)).toEqual(kind(line, { attempts: 9 }))
      yield* line.kinds.register([kind(line, { version: 3, queue: "elsewhere" })])
      expect(yield* line.kinds.find(kind(line).name)).toEqual(kind(line, { version: 3, queue: "elsewhere" }))
    })
  )

  law("all kinds are listed by name, and an empty registration adds none", (line) =>
    Effect.gen(function* () {
      const names = ["c", "a", "b"].map((letter) => `${line.name}.${letter}`)
      yield* line.kinds.register(names.map((name) => kind(line, { name })))
      yield* line.kinds.register([])
      const all = (yield* line.kinds.all).map(({ name }) => name)
      expect(all.filter((name) => names.includes(name))).toEqual(names.toSorted())
    })
  )
}
