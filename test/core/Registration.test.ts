import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { untilClosed } from "../../src/core/Registration.js"

const registered = () => {
  const members = new Set<string>()
  const join = untilClosed(
    () => void members.add("a"),
    () => void members.delete("a")
  )
  return { join, members }
}

describe("a registration", () => {
  it.effect("lasts until its Scope closes", () =>
    Effect.gen(function* () {
      const { join, members } = registered()
      const scope = yield* Scope.make()
      yield* Scope.extend(join, scope)
      expect([...members]).toEqual(["a"])
      yield* Scope.close(scope, Exit.void)
      expect([...members]).toEqual([])
    })
  )

  it.effect("is not made in a closed Scope, which would never end it", () =>
    Effect.gen(function* () {
      const { join, members } = registered()
      const scope = yield* Scope.make()
      yield* Scope.close(scope, Exit.void)
      yield* Scope.extend(join, scope)
      expect([...members]).toEqual([])
    })
  )
})
