import { describe, expect, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as SketchBytes from "../../src/history/SketchBytes.js"
import { Histogram } from "../../src/telemetry/Histogram.js"

const recordings = FastCheck.array(
  FastCheck.record({
    millis: FastCheck.double({ min: -3, max: 10, noNaN: true }).map((power) => 10 ** power),
    times: FastCheck.integer({ min: 1, max: 2 ** 31 - 1 })
  }),
  { maxLength: 60 }
)

const sketched = (values: ReadonlyArray<{ readonly millis: number; readonly times: number }>) => {
  const histogram = new Histogram()
  for (const { millis, times } of values) histogram.record(millis, times)
  return histogram.sketch()
}

/** Decodes the bytea text that PostgreSQL returns. */
const stored = (text: string) => Buffer.from(text.slice("\\x".length), "hex")

describe("a histogram in a column", () => {
  it("is unchanged when it is read back", () => {
    FastCheck.assert(
      FastCheck.property(recordings, (values) => {
        const sketch = sketched(values)
        expect(SketchBytes.decode(stored(SketchBytes.encode(sketch)), sketch.sum, sketch.max)).toEqual(sketch)
      })
    )
  })

  it("is merged with another by concatenation", () => {
    FastCheck.assert(
      FastCheck.property(recordings, recordings, (ours, theirs) => {
        const [a, b] = [sketched(ours), sketched(theirs)]
        const joined = Buffer.concat([stored(SketchBytes.encode(a)), stored(SketchBytes.encode(b))])
        const summary = SketchBytes.summary(joined, a.sum + b.sum, Math.max(a.max, b.max))
        expect(summary).toEqual(Histogram.of(a, b).summary())
      })
    )
  })

  it("is small: several hundred latencies of one kind take fewer bytes than there are latencies", () => {
    const values = Array.from({ length: 300 }, (_, index) => ({ millis: 20 + (index % 60), times: 1 }))
    expect(stored(SketchBytes.encode(sketched(values))).length).toBeLessThan(60)
  })
})
