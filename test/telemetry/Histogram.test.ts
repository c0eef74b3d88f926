import { describe, expect, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { emptySketch, Histogram } from "../../src/telemetry/Histogram.js"

/** From far below a microsecond to a month, evenly over the orders of magnitude, plus typical clock values. */
const latency = FastCheck.oneof(
  FastCheck.double({ min: -4, max: 9.4, noNaN: true }).map((power) => 10 ** power),
  FastCheck.integer({ min: 0, max: 100_000 })
)
const latencies = FastCheck.array(latency, { maxLength: 200 })
const share = FastCheck.double({ min: 0, max: 1, noNaN: true })

const recorded = (values: ReadonlyArray<number>) => {
  const histogram = new Histogram()
  for (const value of values) histogram.record(value)
  return histogram
}

const exactly = (values: ReadonlyArray<number>, part: number) =>
  values.toSorted((a, b) => a - b)[Math.max(1, Math.ceil(part * values.length)) - 1] ?? 0

describe("a histogram", () => {
  it("knows count, sum and maximum exactly", () => {
    FastCheck.assert(
      FastCheck.property(latencies, (values) => {
        const histogram = recorded(values)
        expect(histogram.count).toBe(values.length)
        expect(histogram.max).toBe(Math.max(0, ...values))
        expect(histogram.sum).toBeCloseTo(
          values.reduce((sum, value) => sum + value, 0),
          3
        )
      })
    )
  })

  it("knows every quantile to 4.4 %, or to ten microseconds", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.array(latency, { minLength: 1, maxLength: 200 }), share, (values, part) => {
        const exact = exactly(values, part)
        const known = recorded(values).quantile(part) ?? Number.NaN
        expect(Math.abs(known - exact)).toBeLessThanOrEqual(Math.max(0.01, exact * 0.044))
      })
    )
  })

  it("gives quantiles that increase with the share and never exceed the maximum", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.array(latency, { minLength: 1 }), share, share, (values, one, other) => {
        const histogram = recorded(values)
        const [low = 0, high = 0] = [Math.min(one, other), Math.max(one, other)].map((part) => histogram.quantile(part))
        expect(low).toBeLessThanOrEqual(high)
        expect(high).toBeLessThanOrEqual(histogram.max)
        expect(histogram.quantile(1)).toBe(histogram.max)
      })
    )
  })

  it("merged from many equals one that recorded everything, in any order", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.array(latencies, { maxLength: 6 }), (parts) => {
        const sketches = parts.map((values) => recorded(values).sketch())
        const { counts, max, places, sum } = recorded(parts.flat()).sketch()
        for (const order of [sketches, sketches.toReversed()]) {
          const merged = Histogram.of(...order).sketch()
          expect(merged).toMatchObject({ counts, max, places })
          expect(Math.abs(merged.sum - sum)).toBeLessThanOrEqual(sum * 1e-9)
        }
      })
    )
  })

  it("survives serialization", () => {
    FastCheck.assert(
      FastCheck.property(latencies, (values) => {
        const sketch = recorded(values).sketch()
        expect(Histogram.of(JSON.parse(JSON.stringify(sketch))).sketch()).toEqual(sketch)
      })
    )
  })

  it("stays small for any input, and accepts invalid latencies", () => {
    const histogram = recorded([-5, Number.NaN, Number.POSITIVE_INFINITY, 0, 1e300])
    expect(histogram.count).toBe(5)
    expect(Number.isFinite(histogram.sum)).toBe(true)
    expect(histogram.quantile(0.5)).toBeLessThanOrEqual(0.01)
    for (let power = -20; power < 40; power += 0.01) histogram.record(10 ** power)
    expect(histogram.sketch().places.length).toBeLessThanOrEqual(321)
  })

  it("has no quantiles while it is empty, and is empty again when cleared", () => {
    const histogram = recorded([1, 2, 3])
    histogram.clear()
    expect(histogram.sketch()).toEqual(emptySketch)
    expect(histogram.summary()).toEqual({
      count: 0,
      sum: 0,
      p50: undefined,
      p95: undefined,
      p99: undefined,
      max: undefined
    })
  })
})
