import { describe, expect, it } from "@effect/vitest"
import { type Duration, Effect, Fiber, TestClock } from "effect"
import * as CoalescingCache from "../../src/core/CoalescingCache.js"

/** A query whose result changes with every run and that takes this long. */
const makeShow = (takes: Duration.DurationInput) => {
  let looks = 0
  const query = Effect.suspend(() => {
    looks += 1
    const seen = looks
    return Effect.as(Effect.sleep(takes), seen)
  })
  return { query, looks: () => looks }
}

/** Asks, and advances the clock until the query ends. */
const asked = <A, E>(ask: Effect.Effect<A, E>, takes: Duration.DurationInput) =>
  Effect.gen(function* () {
    const asking = yield* Effect.fork(ask)
    yield* TestClock.adjust(takes)
    return yield* Fiber.join(asking)
  })

const limits: CoalescingCache.CacheLimits = { maxEntries: 2, longest: "10 seconds" }

describe("a coalesced query", () => {
  it.effect("runs once for all callers that arrive during a running query, after that query", () =>
    Effect.gen(function* () {
      const cache = CoalescingCache.make<number>(CoalescingCache.noCaching)
      const { query, looks } = makeShow("1 second")
      const first = yield* Effect.fork(cache.get("q", query))
      yield* TestClock.adjust("500 millis")
      const others = yield* Effect.fork(
        Effect.all(
          Array.from({ length: 50 }, () => cache.get("q", query)),
          { concurrency: "unbounded" }
        )
      )
      yield* TestClock.adjust("1500 millis")
      expect(yield* Fiber.join(first)).toBe(1)
      expect(new Set(yield* Fiber.join(others))).toEqual(new Set([2]))
      expect(looks()).toBe(2)
      expect(yield* asked(cache.get("q", query), "1 second")).toBe(3)
    })
  )

  it.effect("does not run again for callers that waited, if its result may be cached", () =>
    Effect.gen(function* () {
      const cache = CoalescingCache.make<number>(limits)
      const { query } = makeShow("1 second")
      const both = Effect.all([cache.get("q", query), cache.get("q", query)], { concurrency: "unbounded" })
      expect(yield* asked(both, "1 second")).toEqual([1, 1])
    })
  )

  it.effect("is cached for twenty times its duration, then runs again", () =>
    Effect.gen(function* () {
      const cache = CoalescingCache.make<number>(limits)
      const { query } = makeShow("100 millis")
      expect(yield* asked(cache.get("q", query), "100 millis")).toBe(1)
      yield* TestClock.adjust("1999 millis")
      expect(yield* cache.get("q", query)).toBe(1)
      yield* TestClock.adjust("1 millis")
      expect(yield* asked(cache.get("q", query), "100 millis")).toBe(2)
    })
  )

  it.effect("is never cached longer than the limit, however slow it was", () =>
    Effect.gen(function* () {
      const cache = CoalescingCache.make<number>(limits)
      const { query } = makeShow("4 seconds")
      expect(yield* asked(cache.get("q", query), "4 seconds")).toBe(1)
      yield* TestClock.adjust("10 seconds")
      expect(yield* asked(cache.get("q", query), "4 seconds")).toBe(2)
    })
  )

  it.effect("runs every time when it is fast", () =>
    Effect.gen(function* () {
      const cache = CoalescingCache.make<number>(limits)
      const { query } = makeShow("49 millis")
      expect(yield* asked(cache.get("q", query), "49 millis")).toBe(1)
      expect(yield* asked(cache.get("q", query), "49 millis")).toBe(2)
    })
  )

  it.effect("returns fresh data after a change, even if an older query was running", () =>
    Effect.gen(function* () {
      const cache = CoalescingCache.make<number>(limits)
      const { query } = makeShow("1 second")
      expect(yield* asked(cache.get("q", query), "1 second")).toBe(1)
      yield* cache.forget
      const before = yield* Effect.fork(cache.get("q", query))
      yield* TestClock.adjust("500 millis")
      yield* cache.forget
      const after = yield* Effect.fork(cache.get("q", query))
      yield* TestClock.adjust("1 second")
      expect([yield* Fiber.join(before), yield* Fiber.join(after)]).toEqual([2, 3])
      expect(yield* cache.get("q", query)).toBe(3)
    })
  )

  it.effect("is not lost when its first caller is interrupted or fails", () =>
    Effect.gen(function* () {
      const cache = CoalescingCache.make<number>(limits)
      const { query } = makeShow("1 second")
      const gone = yield* Effect.fork(cache.get("q", query))
      const failing = yield* Effect.fork(Effect.flip(cache.get("q", Effect.fail("no" as const))))
      const patient = yield* Effect.fork(cache.get("q", query))
      yield* TestClock.adjust("500 millis")
      yield* Fiber.interrupt(gone)
      yield* TestClock.adjust("1 second")
      expect(yield* Fiber.join(failing)).toBe("no")
      expect(yield* Fiber.join(patient)).toBe(2)
    })
  )

  it.effect("is cached for a bounded number of keys, the newest", () =>
    Effect.gen(function* () {
      const cache = CoalescingCache.make<number>(limits)
      const { query } = makeShow("400 millis")
      for (const question of ["a", "b", "c", "d"]) yield* asked(cache.get(question, query), "400 millis")
      expect(yield* cache.get("d", query)).toBe(4)
      expect(yield* cache.get("c", query)).toBe(3)
      expect(yield* asked(cache.get("a", query), "400 millis")).toBe(5)
    })
  )
})
