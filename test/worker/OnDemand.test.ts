import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, TestClock } from "effect"
import * as OnDemand from "../../src/worker/OnDemand.js"

const times = { freshFor: "15 seconds", restAfterFailure: "1 minute", timeout: "1 second" } as const

/** Work that counts its runs. */
const counted = (work: () => Effect.Effect<void, unknown>) => {
  let done = 0
  const name = "counting sheep"
  const whole = Effect.suspend(() => {
    done += 1
    return work()
  })
  return Effect.map(OnDemand.make({ name, work: whole, ...times }), (onDemand) => ({ ...onDemand, done: () => done }))
}

describe("work on demand", () => {
  it.scoped("runs when a caller asks, and not again while its result is fresh", () =>
    Effect.gen(function* () {
      const sheep = yield* counted(() => Effect.void)
      yield* TestClock.adjust("1 hour")
      expect(sheep.done()).toBe(0)
      expect(yield* sheep.age).toBeUndefined()
      yield* Effect.all(
        Array.from({ length: 10 }, () => sheep.refresh),
        { concurrency: "unbounded" }
      )
      expect(sheep.done()).toBe(1)
      yield* TestClock.adjust("14 seconds")
      yield* sheep.refresh
      expect([sheep.done(), yield* sheep.age]).toEqual([1, 14_000])
      yield* TestClock.adjust("1 second")
      yield* sheep.refresh
      expect([sheep.done(), yield* sheep.age]).toEqual([2, 0])
    })
  )

  it.scoped("makes no caller wait long, and continues for later callers", () =>
    Effect.gen(function* () {
      const sheep = yield* counted(() => Effect.sleep("4 seconds"))
      const asking = yield* Effect.fork(sheep.refresh)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(asking)
      expect(yield* sheep.age).toBeUndefined()
      yield* TestClock.adjust("3 seconds")
      yield* sheep.refresh
      expect([sheep.done(), yield* sheep.age]).toEqual([1, 0])
    })
  )

  it.scoped("is not retried for a while after a failure, and its last result ages", () =>
    Effect.gen(function* () {
      let broken = false
      const sheep = yield* counted(() => (broken ? Effect.fail("no fence") : Effect.void))
      yield* sheep.refresh
      broken = true
      yield* TestClock.adjust("20 seconds")
      yield* sheep.refresh
      yield* TestClock.adjust("59 seconds")
      yield* sheep.refresh
      expect([sheep.done(), yield* sheep.age]).toEqual([2, 79_000])
      broken = false
      yield* TestClock.adjust("1 second")
      yield* sheep.refresh
      expect([sheep.done(), yield* sheep.age]).toEqual([3, 0])
    })
  )
})
