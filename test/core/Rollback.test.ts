import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, Ref } from "effect"
import * as Rollback from "../../src/core/Rollback.js"

/** A number that records how to restore its previous value. */
const table = () => {
  let value = 0
  const add = (amount: number) =>
    Effect.suspend(() => {
      value += amount
      return Rollback.remember(() => {
        value -= amount
      })
    })
  return { add, read: () => value }
}

describe("a transaction in memory", () => {
  it.effect("keeps the changes of a success and undoes those of a failure", () =>
    Effect.gen(function* () {
      const { add, read } = table()
      yield* Rollback.transaction(add(1))
      yield* Effect.exit(Rollback.transaction(Effect.zipRight(add(2), Effect.fail("no"))))
      yield* Effect.exit(Rollback.transaction(Effect.zipRight(add(4), Effect.dieMessage("no"))))
      expect(read()).toBe(1)
    })
  )

  it.effect("undoes the changes of a nested success when it fails itself", () =>
    Effect.gen(function* () {
      const { add, read } = table()
      const inner = Rollback.transaction(add(1))
      yield* Effect.exit(Rollback.transaction(Effect.zipRight(inner, Effect.fail("no"))))
      expect(read()).toBe(0)
      const failing = Effect.ignore(Rollback.transaction(Effect.zipRight(add(2), Effect.fail("no"))))
      yield* Rollback.transaction(Effect.zipRight(failing, add(4)))
      expect(read()).toBe(4)
    })
  )

  it.effect("undoes its changes when it is interrupted, and records none outside a transaction", () =>
    Effect.gen(function* () {
      const { add, read } = table()
      const begun = yield* Ref.make(false)
      const fiber = yield* Effect.fork(
        Rollback.transaction(Effect.zipRight(Effect.zipRight(add(1), Ref.set(begun, true)), Effect.never))
      )
      yield* Effect.repeat(Effect.yieldNow(), { until: () => Ref.get(begun) })
      expect(read()).toBe(1)
      yield* Fiber.interrupt(fiber)
      expect(read()).toBe(0)
      yield* Effect.exit(Effect.zipRight(add(2), Effect.fail("no")))
      expect(read()).toBe(2)
    })
  )
})
