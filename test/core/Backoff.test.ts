import { describe, expect, it } from "@effect/vitest"
import { Duration } from "effect"
import * as Backoff from "../../src/core/Backoff.js"

const waits = (backoff: Backoff.Backoff, chance = 0.5) =>
  [1, 2, 3, 4, 5, 6].map((attempt) => Duration.toSeconds(backoff(attempt, chance)))

describe("Backoff", () => {
  it("ladder: waits thirty seconds, two minutes, ten minutes, then an hour each time", () => {
    expect(waits(Backoff.ladder)).toEqual([30, 120, 600, 3_600, 3_600, 3_600])
  })

  it("stepwise: waits its steps in order, then repeats the last one", () => {
    expect(waits(Backoff.stepwise("1 second", "5 seconds", "1 minute"))).toEqual([1, 5, 60, 60, 60, 60])
    expect(waits(Backoff.stepwise("7 seconds"))).toEqual([7, 7, 7, 7, 7, 7])
  })

  it("fixed: waits the same time before every retry", () => {
    expect(waits(Backoff.fixed("10 seconds"))).toEqual([10, 10, 10, 10, 10, 10])
  })

  it("exponential: doubles up to its maximum", () => {
    const backoff = Backoff.exponential({ base: "1 second", max: "10 seconds", jitter: false })
    expect(waits(backoff)).toEqual([1, 2, 4, 8, 10, 10])
    expect(Duration.toSeconds(backoff(1_000, 0.5))).toBe(10)
  })

  it("exponential: jitter changes a wait by up to ten percent in either direction", () => {
    const backoff = Backoff.exponential({ base: "10 seconds", max: "1 hour" })
    expect([0, 0.5, 1].map((chance) => Duration.toMillis(backoff(1, chance)))).toEqual([9_000, 10_000, 11_000])
  })

  it("exponential: jitter never exceeds the maximum, and still spreads the waits that reach it", () => {
    const backoff = Backoff.exponential({ base: "10 seconds", max: "25 seconds" })
    const millis = (attempt: number) => [0, 0.5, 1].map((chance) => Duration.toMillis(backoff(attempt, chance)))
    expect(millis(2)).toEqual([18_000, 20_000, 22_000])
    expect(millis(3)).toEqual([22_500, 23_750, 25_000])
    expect(millis(50)).toEqual([22_500, 23_750, 25_000])
  })

  it("jittered: varies any backoff by a share in either direction", () => {
    const millis = (backoff: Backoff.Backoff) => [0, 0.5, 1].map((chance) => Duration.toMillis(backoff(1, chance)))
    expect(millis(Backoff.jittered(Backoff.ladder, true))).toEqual([27_000, 30_000, 33_000])
    expect(millis(Backoff.jittered(Backoff.fixed("10s"), 0.5))).toEqual([5_000, 10_000, 15_000])
    expect(millis(Backoff.jittered(Backoff.fixed("10s"), false))).toEqual([10_000, 10_000, 10_000])
    expect(millis(Backoff.exponential({ base: "10s", max: "12s", jitter: 0.5 }))).toEqual([5_000, 8_500, 12_000])
    for (const jitter of [-0.1, 1.1, Number.NaN]) {
      expect(() => Backoff.jittered(Backoff.ladder, jitter)).toThrow("jitter must be a number from 0 to 1")
    }
  })
})
