import { expect, it } from "vitest"
import { merged } from "../../src/http/fleet/CellFigures.js"
import { Histogram } from "../../src/telemetry/Histogram.js"

const historyOf = (...values: ReadonlyArray<ReadonlyArray<number>>) => ({
  since: "2026-01-01T00:00:00.000Z",
  bucket: "2m",
  points: values.map((some, place) => {
    const histogram = new Histogram()
    for (const value of some) histogram.record(value)
    const at = `2026-01-01T00:0${2 * place}:00.000Z`
    return { at, enqueued: 1, completed: some.length, retried: 0, dead: 0, totals: histogram.sketch() }
  })
})

it("adds up the histories of cells, and merges their latencies instead of averaging them", () => {
  const fast = Array.from({ length: 99 }, () => 10)
  const history = merged([historyOf(fast, [10]), historyOf([1_000, 1_000])])
  expect(history?.points.map(({ completed, enqueued }) => [completed, enqueued])).toEqual([
    [101, 2],
    [1, 1]
  ])
  const [first, second] = history?.points ?? []
  expect(first?.total.count).toBe(101)
  expect(first?.total.p50).toBeCloseTo(0.01, 3)
  expect(first?.total.p99).toBeGreaterThan(0.9)
  expect(second?.total.max).toBe(0.01)
  expect(merged([])).toBeNull()
})
