import { describe, expect, it } from "@effect/vitest"
import { Duration, Option } from "effect"
import * as DurationText from "../../src/core/DurationText.js"

describe("DurationText", () => {
  it("parses common notations", () => {
    for (const [text, millis] of [
      ["168h", 604_800_000],
      ["30m", 1_800_000],
      ["90s", 90_000],
      ["250ms", 250],
      ["1h30m", 5_400_000],
      ["1.5s", 1_500],
      ["1.1h", 3_960_000],
      ["2.2h", 7_920_000],
      ["0.7d", 60_480_000],
      ["1.005s", 1_005],
      ["0.25ms", 0.25],
      ["7d", 604_800_000],
      ["0", 0],
      [" 5m ", 300_000]
    ] as const) {
      expect(Option.map(DurationText.parse(text), Duration.toMillis)).toEqual(Option.some(millis))
    }
  })

  it("refuses text that is not a duration", () => {
    for (const text of ["", "30", "m", "5 minutes", "1h-5m", "NaNs", "1e3s", "-30m", "99999999999999999999h", "30m;"]) {
      expect(DurationText.parse(text)).toEqual(Option.none())
    }
  })

  it("decodes every form like Effect does", () => {
    const inputs = [
      ...[0, 1500, 0.5, -1, Number.POSITIVE_INFINITY, 5_000_000n, [2, 500_000_000]],
      ...["250 nanos", "3 micros", "1 milli", "90 seconds", "1.5 minutes", "2 hours", "1 day", "2 weeks", "-5 seconds"],
      Duration.minutes(3)
    ] as ReadonlyArray<Duration.DurationInput>
    const decoded = inputs.map((input) => Duration.toMillis(DurationText.decode(input)))
    expect(decoded).toEqual(inputs.map((input) => Duration.toMillis(input)))
  })

  it("reads durations of another copy of Effect, and refuses other objects", () => {
    expect(Duration.toMillis(DurationText.decode({ value: { _tag: "Millis", millis: 5 } }))).toBe(5)
    expect(Duration.toMillis(DurationText.decode({ value: { _tag: "Infinity" } }))).toBe(Number.POSITIVE_INFINITY)
    for (const wrong of [{ value: 30, unit: "s" }, { value: undefined }, {}])
      expect(() => DurationText.decode(wrong as never)).toThrow("is not a duration")
    // Effect makes it 0, which would hide a mistake in the caller's arithmetic.
    expect(() => DurationText.decode(Number.NaN)).toThrow("NaN is not a duration")
  })

  it("keeps the sign for callers that clamp the value themselves", () => {
    expect(DurationText.parseMillis("-30m")).toEqual(Option.some(-1_800_000))
  })

  it("formats a duration as text that parses to the same value", () => {
    for (const text of ["168h", "1h30m", "90s", "250ms", "0s", "1m500ms", "1.1h", "1s0.25ms"]) {
      const duration = Option.getOrThrow(DurationText.parse(text))
      const again = Option.getOrThrow(DurationText.parse(DurationText.format(duration)))
      expect(Duration.toMillis(again)).toBe(Duration.toMillis(duration))
    }
    for (const [duration, text] of [
      ["2 hours", "2h"],
      ["90 minutes", "1h30m"],
      ["1 day", "24h"],
      ["36 hours", "36h"],
      ["7 days", "7d"],
      [3_960_000.0000000005, "1h6m"],
      [1_000 / 3, "333.333ms"],
      [1e-9, "0s"]
    ] as const) {
      expect(DurationText.format(duration)).toBe(text)
    }
  })
})
