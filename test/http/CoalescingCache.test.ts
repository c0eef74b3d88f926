import { describe, expect, it } from "@effect/vitest"
import { type Duration, Effect, Fiber, TestClock } from "effect"
import * as CoalescingCache from "../../src/http/CoalescingCache.js"

/** A query whose result changes with every run and that takes this long. */
const makeShow = (takes: Duration.DurationInput) => {
  let looks = 0
  const look = Effect.suspend(() => {
    looks += 1
    const seen = looks
    return Effect.as(Effect.sleep(takes), seen)
  })
  return { look, looks: () => looks }
}

/** Asks, and advances the clock until the query ends. */
const asked = <A, E>(ask: Effect.Effect<A, E>, takes: Duration.DurationInput) =>
  Effect.gen(function* () {
    const asking = yield* Effect.fork(ask)
    yield* TestClock.adjust(takes)
    return yield* Fiber.join(asking)
  })

const kept: CoalescingCache.Kept = { most: 2, longest: "10 seconds" }

describe("a coalesced query", () => {
  it.effect("runs once for all callers that arrive during a running query, after that query", () =>
    Effect.gen(function* () {
      const answers = CoalescingCache.make<number>(CoalescingCache.nothing)
      const { look, looks } = makeShow("1 second")
      const first = yield* Effect.fork(answers.to("q", look))
      yield* TestClock.adjust("500 millis")
      const others = yield* Effect.fork(
        Effect.all(
          Array.from({ length: 50 }, () => answers.to("q", look)),
          { concurrency: "unbounded" }
        )
      )
      yield* TestClock.adjust("1500 millis")
      expect(yield* Fiber.join(first)).toBe(1)
      expect(new Set(yield* Fiber.join(others))).toEqual(new Set([2]))
      expect(looks()).toBe(2)
      expect(yield* asked(answers.to("q", look), "1 second")).toBe(3)
    })
  )

  it.effect("does not run again for callers that waited, if its result may be cached", () =>
    Effect.gen(function* () {
      const answers = CoalescingCache.make<number>(kept)
      const { look } = makeShow("1 second")
      const both = Effect.all([answers.to("q", look), answers.to("q", look)], { concurrency: "unbounded" })
      expect(yield* asked(both, "1 second")).toEqual([1, 1])
    })
  )

  it.effect("is cached for twenty times its duration, then runs again", () =>
    Effect.gen(function* () {
      const answers = CoalescingCache.make<number>(kept)
      const { look } = makeShow("100 millis")
      expect(yield* asked(answers.to("q", look), "100 millis")).toBe(1)
      yield* TestClock.adjust("1999 millis")
      expect(yield* answers.to("q", look)).toBe(1)
      yield* TestClock.adjust("1 millis")
      expect(yield* asked(answers.to("q", look), "100 millis")).toBe(2)
    })
  )

  it.effect("is never cached longer than the limit, however slow it was", () =>
    Effect.gen(function* () {
      const answers = CoalescingCache.make<number>(kept)
      const { look } = makeShow("4 seconds")
      expect(yield* asked(answers.to("q", look), "4 seconds")).toBe(1)
      yield* TestClock.adjust("10 seconds")
      expect(yield* asked(answers.to("q", look), "4 seconds")).toBe(2)
    })
  )

  it.effect("runs every time when it is fast", () =>
    Effect.gen(function* () {
      const answers = CoalescingCache.make<number>(kept)
      const { look } = makeShow("49 millis")
      expect(yield* asked(answers.to("q", look), "49 millis")).toBe(1)
      expect(yield* asked(answers.to("q", look), "49 millis")).toBe(2)
    })
  )

  it.effect("returns fresh data after a change, even if an older query was running", () =>
    Effect.gen(function* () {
      const answers = CoalescingCache.make<number>(kept)
      const { look } = makeShow("1 second")
      expect(yield* asked(answers.to("q", look), "1 second")).toBe(1)
      yield* answers.forget
      const before = yield* Effect.fork(answers.to("q", look))
      yield* TestClock.adjust("500 millis")
      yield* answers.forget
      const after = yield* Effect.fork(answers.to("q", look))
      yield* TestClock.adjust("1 second")
      expect([yield* Fiber.join(before), yield* Fiber.join(after)]).toEqual([2, 3])
      expect(yield* answers.to("q", look)).toBe(3)
    })
  )

  it.effect("is not lost when its first caller is interrupted or fails", () =>
    Effect.gen(function* () {
      const answers = CoalescingCache.make<number>(kept)
      const { look } = makeShow("1 second")
      const gone = yield* Effect.fork(answers.to("q", look))
      const failing = yield* Effect.fork(Effect.flip(answers.to("q", Effect.fail("no" as const))))
      const patient = yield* Effect.fork(answers.to("q", look))
      yield* TestClock.adjust("500 millis")
      yield* Fiber.interrupt(gone)
      yield* TestClock.adjust("1 second")
      expect(yield* Fiber.join(failing)).toBe("no")
      expect(yield* Fiber.join(patient)).toBe(2)
    })
  )

  it.effect("is cached for a bounded number of keys, the newest", () =>
    Effect.gen(function* () {
      const answers = CoalescingCache.make<number>(kept)
      const { look } = makeShow("400 millis")
      for (const question of ["a", "b", "c", "d"]) yield* asked(answers.to(question, look), "400 millis")
      expect(yield* answers.to("d", look)).toBe(4)
      expect(yield* answers.to("c", look)).toBe(3)
      expect(yield* asked(answers.to("a", look), "400 millis")).toBe(5)
    })
  )
})
