import { describe, expect, it } from "vitest"
import { judgeAll, type Sample, table } from "./Curves.js"

const MiB = 1024 * 1024

/** Two hours of samples, one a minute. */
const sampled = (name: string, valueAt: (minute: number) => number, minutes = 120): ReadonlyArray<Sample> =>
  Array.from({ length: minutes }, (_, minute) => ({ at: minute * 60_000, values: { [name]: valueAt(minute) } }))

/** The same noise in every run, between 0 and 1. */
const noise = (minute: number) => Math.sin(minute * minute * 12.9898) ** 2

const verdictOf = (samples: ReadonlyArray<Sample>) => judgeAll(samples).map(({ verdict }) => verdict)

describe("the verdict on a curve", () => {
  it("calls a handler that leaks 10 KiB for each of ten jobs a second not flat", () => {
    const leak = sampled("heap", (minute) => 60 * MiB + 3 * MiB * noise(minute) + minute * 60 * 10 * 10_240)
    expect(judgeAll(leak)).toMatchObject([{ name: "heap", verdict: "not flat", unit: "bytes" }])
    expect(judgeAll(leak)[0]?.risePerHour).toBeGreaterThan(340 * MiB)
  })

  it("calls noise around a level flat", () => {
    expect(verdictOf(sampled("rss", (minute) => 150 * MiB + 30 * MiB * noise(minute)))).toEqual(["flat"])
  })

  it("ignores the rise of the first half", () => {
    expect(verdictOf(sampled("table all", (minute) => Math.min(minute, 50) * 4 * MiB))).toEqual(["flat"])
  })

  it("is not disturbed by peaks, as after a kill in every sixth minute", () => {
    expect(verdictOf(sampled("p99", (minute) => (minute % 6 === 0 ? 20_000 : 90 + 5 * noise(minute))))).toEqual([
      "flat"
    ])
  })

  it("calls a steady rise below the tolerance flat, and one above it not flat", () => {
    const rising = (perHour: number) => sampled("backlog", (minute) => 10 + (perHour * minute) / 60)
    expect(verdictOf(rising(19))).toEqual(["flat"])
    expect(verdictOf(rising(41))).toEqual(["not flat"])
  })

  it("calls a falling curve flat", () => {
    expect(verdictOf(sampled("dead rows", (minute) => 90_000 - 500 * minute))).toEqual(["flat"])
  })

  it("does not judge a run of less than twenty minutes", () => {
    expect(verdictOf(sampled("heap", (minute) => minute * MiB, 19))).toEqual(["too short"])
  })

  it("prints a row for each curve, and tables of the database only if they grow", () => {
    const samples = [...Array(120).keys()].map((minute) => ({
      at: minute * 60_000,
      values: { connections: 12, "table job": 8 * MiB, "table audit": minute * MiB }
    }))
    expect(table(judgeAll(samples)).map((line) => line.replace(/ {2,}/g, " | ").trim())).toEqual([
      "curve | median | last | rise per hour | accepted | verdict",
      "connections | 12 | 12 | 0.0 | 3.0 | flat",
      "table audit | 90 MiB | 119 MiB | 60 MiB | 9.0 MiB | not flat"
    ])
  })
})
