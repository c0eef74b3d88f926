// Decides from the samples of a soak whether its curves are flat.
//
// A curve is judged by its second half: the first half covers the start, caches and the first retention. Its rise is the
// Theil-Sen slope, the median of the slopes between all pairs of samples, per hour. It is not flat if
//
// 1. the rise per hour is more than the curve's tolerance: a share of its median, at least an absolute amount, and
// 2. the Mann-Kendall test finds a rising trend that chance explains with a probability below 1 %.
//
// Only a rise counts. A second half with fewer than 10 samples or less than 10 minutes is too short to judge.

/** One value of each curve, by name. A curve may be absent from some samples. */
export interface Sample {
  /** Milliseconds since the start. */
  readonly at: number
  readonly values: Readonly<Record<string, number>>
}

export interface Tolerance {
  readonly unit: "bytes" | "ms" | "rows" | "jobs" | "connections" | "files"
  /** Accepted rise per hour, as a share of the median. */
  readonly share: number
  /** Accepted rise per hour, however small the median is. */
  readonly least: number
}

export type Verdict = "flat" | "not flat" | "too short"

export interface Curve {
  readonly name: string
  readonly unit: Tolerance["unit"]
  readonly median: number
  readonly last: number
  readonly risePerHour: number
  /** The accepted rise per hour. */
  readonly accepted: number
  /** The probability of such a trend by chance. */
  readonly chance: number
  readonly verdict: Verdict
}

const MiB = 1024 * 1024
const size: Tolerance = { unit: "bytes", share: 0.1, least: 2 * MiB }

/** The tolerances by the first word of a curve's name. */
export const tolerances: Readonly<Record<string, Tolerance>> = {
  rss: { unit: "bytes", share: 0.1, least: 16 * MiB },
  heap: { unit: "bytes", share: 0.05, least: 4 * MiB },
  files: { unit: "files", share: 0.1, least: 5 },
  table: size,
  index: size,
  dead: { unit: "rows", share: 0.25, least: 2_000 },
  connections: { unit: "connections", share: 0.1, least: 3 },
  p50: { unit: "ms", share: 0.25, least: 20 },
  p99: { unit: "ms", share: 0.5, least: 500 },
  backlog: { unit: "jobs", share: 0.25, least: 20 }
}

const hour = 3_600_000
const minSamples = 10
const minSpan = 600_000
const significance = 0.01

const medianOf = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((one, other) => one - other)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

type Point = readonly [at: number, value: number]

const pairs = (points: ReadonlyArray<Point>): ReadonlyArray<readonly [Point, Point]> =>
  points.flatMap((one, index) => points.slice(index + 1).map((other) => [one, other] as const))

/** The Theil-Sen slope per millisecond. */
const slopeOf = (points: ReadonlyArray<Point>): number =>
  medianOf(pairs(points).map(([[from, before], [to, after]]) => (after - before) / (to - from)))

/** The probability that a normally distributed value is above z (Abramowitz and Stegun 26.2.17). */
const above = (z: number): number => {
  const t = 1 / (1 + 0.2316419 * Math.abs(z))
  const series = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  const tail = (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * series
  return z >= 0 ? tail : 1 - tail
}

/** The one-sided p-value of the Mann-Kendall test for a rising trend, corrected for equal values. */
const chanceOfRise = (points: ReadonlyArray<Point>): number => {
  const signs = pairs(points).reduce((sum, [[, before], [, after]]) => sum + Math.sign(after - before), 0)
  const counts = new Map<number, number>()
  for (const [, value] of points) counts.set(value, (counts.get(value) ?? 0) + 1)
  const term = (n: number) => n * (n - 1) * (2 * n + 5)
  const ties = [...counts.values()].reduce((sum, count) => sum + term(count), 0)
  const variance = (term(points.length) - ties) / 18
  return variance === 0 ? 1 : above((signs - Math.sign(signs)) / Math.sqrt(variance))
}

const judge = (name: string, points: ReadonlyArray<Point>): Curve => {
  const tolerance = tolerances[name.split(" ")[0] ?? ""]
  if (tolerance === undefined) throw new Error(`The curve "${name}" has no tolerance. Add one to Curves.ts.`)
  const values = points.map(([, value]) => value)
  const [first = [0, 0], last = [0, 0]] = [points[0], points.at(-1)]
  const isTooShort = points.length < minSamples || last[0] - first[0] < minSpan
  const median = medianOf(values)
  const accepted = Math.max(tolerance.share * median, tolerance.least)
  const risePerHour = isTooShort ? 0 : slopeOf(points) * hour
  const chance = isTooShort ? 1 : chanceOfRise(points)
  const isRising = risePerHour > accepted && chance < significance
  const verdict = isTooShort ? "too short" : isRising ? "not flat" : "flat"
  return { name, unit: tolerance.unit, median, last: last[1], risePerHour, accepted, chance, verdict }
}

/** Judges every curve of the samples, by name. */
export const judgeAll = (samples: ReadonlyArray<Sample>): ReadonlyArray<Curve> => {
  const end = samples.at(-1)?.at ?? 0
  const names = [...new Set(samples.flatMap(({ values }) => Object.keys(values)))]
  return names.map((name) =>
    judge(
      name,
      samples.flatMap(({ at, values }): ReadonlyArray<Point> => {
        const value = values[name]
        return value === undefined || at < end / 2 ? [] : [[at, value]]
      })
    )
  )
}

const round = (value: number) => (Math.abs(value) < 10 ? value.toFixed(1) : Math.round(value).toString())

const texts: Readonly<Record<Tolerance["unit"], (value: number) => string>> = {
  bytes: (value) => `${round(value / MiB)} MiB`,
  ms: (value) => `${round(value)} ms`,
  rows: round,
  jobs: round,
  connections: round,
  files: round
}

/** The verdict as lines of a table. Tables and indexes of the database are listed only if they are not flat. */
export const table = (curves: ReadonlyArray<Curve>): ReadonlyArray<string> => {
  const rows = curves
    .filter(({ name, verdict }) => verdict === "not flat" || !/^(table|index) (?!all)/.test(name))
    .map(({ accepted, last, median, name, risePerHour, unit, verdict }) => {
      const text = texts[unit]
      return [name, text(median), text(last), text(risePerHour), text(accepted), verdict]
    })
  const all = [["curve", "median", "last", "rise per hour", "accepted", "verdict"], ...rows]
  const widths = all[0]?.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0))) ?? []
  return all.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd()
  )
}
