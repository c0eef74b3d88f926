import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, TestClock } from "effect"
import { timeoutFail } from "../../src/core/Alarm.js"
import { makeLatch } from "../../src/core/LoopSchedule.js"
import * as VirtualClock from "../../src/testing/VirtualClock.js"

/** The clock of production starts a fiber for an alarm; the clock of tests does not. */
const clocks = { "without alarms": Layer.empty, "with alarms": VirtualClock.layer } as const

const limit = { duration: "10 seconds", onTimeout: () => "too late" } as const

/** An effect that never ends by itself, and what happens to it. */
const makeEndless = () => {
  const events: Array<string> = []
  const endless = Effect.onInterrupt(
    Effect.zipRight(
      Effect.sync(() => events.push("begun")),
      Effect.never
    ),
    () => Effect.sync(() => events.push("interrupted"))
  )
  return { endless, events }
}

for (const [name, clock] of Object.entries(clocks)) {
  describe(`a timeout on a clock ${name}`, () => {
    it.effect("returns what the effect returns, and fails as it fails", () =>
      Effect.gen(function* () {
        const slow = yield* Effect.fork(timeoutFail(Effect.as(Effect.sleep("9 seconds"), "done"), limit))
        const failing = yield* Effect.fork(Effect.flip(timeoutFail(Effect.fail("wrong"), limit)))
        yield* TestClock.adjust("1 minute")
        expect(yield* Fiber.join(slow)).toBe("done")
        expect(yield* Fiber.join(failing)).toBe("wrong")
      }).pipe(Effect.provide(clock))
    )

    it.effect("interrupts the effect after the duration, and fails when it has ended", () =>
      Effect.gen(function* () {
        const mayEnd = yield* Deferred.make<void>()
        const { endless, events } = makeEndless()
        const stubborn = Effect.ensuring(endless, Deferred.await(mayEnd))
        const fiber = yield* Effect.fork(Effect.flip(timeoutFail(stubborn, limit)))
        yield* TestClock.adjust("9 seconds")
        expect(events).toEqual(["begun"])
        yield* TestClock.adjust("1 minute")
        expect(events).toEqual(["begun", "interrupted"])
        expect(fiber.unsafePoll()).toBeNull()
        yield* Deferred.succeed(mayEnd, undefined)
        expect(yield* Fiber.join(fiber)).toBe("too late")
      }).pipe(Effect.provide(clock))
    )

    it.effect("interrupts the effect when its fiber is interrupted, and waits for its end", () =>
      Effect.gen(function* () {
        const { endless, events } = makeEndless()
        const fiber = yield* Effect.fork(timeoutFail(endless, limit))
        yield* TestClock.adjust("1 second")
        expect(Exit.isInterrupted(yield* Fiber.interrupt(fiber))).toBe(true)
        expect(events).toEqual(["begun", "interrupted"])
      }).pipe(Effect.provide(clock))
    )
  })

  describe(`a latch on a clock ${name}`, () => {
    it.effect("stays open for the next wait if it is opened after the end of a fiber that waited", () =>
      Effect.gen(function* () {
        const latch = makeLatch()
        const first = yield* Effect.fork(latch.openedWithin("1 hour"))
        yield* TestClock.adjust("1 second")
        yield* Fiber.interrupt(first)
        latch.open()
        const second = yield* Effect.fork(latch.openedWithin("1 hour"))
        yield* TestClock.adjust("1 second")
        expect(second.unsafePoll()).toEqual(Exit.void)
      }).pipe(Effect.provide(clock))
    )
  })
}
