import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Option } from "effect"
import { callAfter, timeoutOption } from "../../src/core/Timer.js"
import * as VirtualClock from "../../src/testing/VirtualClock.js"

const virtual = <A, E>(effect: Effect.Effect<A, E>) => Effect.provide(effect, VirtualClock.layer)
const clocks = { "the machine's clock": <A, E>(effect: Effect.Effect<A, E>) => effect, "a virtual clock": virtual }

for (const [name, on] of Object.entries(clocks)) {
  describe(`a timeout on ${name}`, () => {
    it.live("returns the result, the error or the defect of an effect that ends in time", () =>
      on(
        Effect.gen(function* () {
          expect(yield* timeoutOption(Effect.succeed(1), "1 hour")).toEqual(Option.some(1))
          expect(yield* Effect.exit(timeoutOption(Effect.fail("no"), "1 hour"))).toEqual(Exit.fail("no"))
          expect(yield* Effect.exit(timeoutOption(Effect.die("bug"), "1 hour"))).toEqual(Exit.die("bug"))
        })
      )
    )

    it.live("is passed on to the effect when the caller is interrupted", () =>
      on(
        Effect.gen(function* () {
          const started = yield* Deferred.make<void>()
          let released = false
          const effect = Effect.zipRight(Deferred.succeed(started, undefined), Effect.never).pipe(
            Effect.ensuring(Effect.sync(() => (released = true)))
          )
          const fiber = yield* Effect.fork(timeoutOption(effect, "1 hour"))
          yield* Deferred.await(started)
          yield* Fiber.interrupt(fiber)
          expect(released).toBe(true)
        })
      )
    )

    it.live("is none when the effect takes longer, after its finalizers have run", () =>
      on(
        Effect.gen(function* () {
          let released = false
          const effect = Effect.ensuring(
            Effect.never,
            Effect.sync(() => (released = true))
          )
          const fiber = yield* Effect.fork(timeoutOption(effect, "1 millis"))
          const clock = yield* Effect.clock
          if (clock instanceof VirtualClock.VirtualClock) yield* clock.adjust("1 millis")
          expect(yield* Fiber.join(fiber)).toEqual(Option.none())
          expect(released).toBe(true)
        })
      )
    )
  })
}

it.live("a cancelled call is not made", () =>
  virtual(
    Effect.gen(function* () {
      const clock = (yield* Effect.clock) as VirtualClock.VirtualClock
      const calls: Array<string> = []
      const cancel = yield* callAfter("1 second", () => calls.push("first"))
      yield* callAfter("2 seconds", () => calls.push("second"))
      cancel()
      yield* clock.adjust("1 hour")
      expect(calls).toEqual(["second"])
    })
  )
)
