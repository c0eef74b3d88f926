import { Clock, Duration, Effect, Layer } from "effect"
import type { PodId } from "../core/Ids.js"
import { Histogram } from "../telemetry/Histogram.js"
import { mostPods, type PodPoint, type PodSample, PodSamples } from "./PodSamples.js"
import * as TimeGrid from "./TimeGrid.js"

const worst = (samples: ReadonlyArray<PodSample>, of: (sample: PodSample) => number) => Math.max(0, ...samples.map(of))

const pointOf = (at: number, samples: ReadonlyArray<PodSample>): PodPoint => ({
  at,
  cpu: samples.reduce((sum, { cpu }) => sum + cpu, 0) / samples.length,
  rssBytes: worst(samples, ({ rssBytes }) => rssBytes),
  eventLoop: {
    p99: worst(samples, (sample) => sample.eventLoop.p99),
    max: worst(samples, (sample) => sample.eventLoop.max)
  },
  pool: {
    busy: worst(samples, ({ pool }) => pool.busy),
    idle: worst(samples, ({ pool }) => pool.idle),
    waiting: worst(samples, ({ pool }) => pool.waiting)
  },
  statements: Histogram.of(...samples.map(({ statements }) => statements)).summary()
})

export const layer: Layer.Layer<PodSamples> = Layer.sync(PodSamples, () => {
  const rows = new Map<string, PodSample>()
  const within = ({ from, to }: TimeGrid.Range) =>
    [...rows.values()].filter(({ minute }) => minute >= from && minute < to).sort((a, b) => a.minute - b.minute)

  return {
    record: (sample) => Effect.sync(() => void rows.set(`${sample.minute} ${sample.pod}`, sample)),
    series: ({ width, ...range }) =>
      Effect.map(TimeGrid.of(range, width), (grid) => {
        const pods = new Map<PodId, Map<number, Array<PodSample>>>()
        for (const sample of within(grid)) {
          const at = Math.floor(sample.minute / grid.width) * grid.width
          const buckets = pods.get(sample.pod) ?? new Map<number, Array<PodSample>>()
          buckets.set(at, [...(buckets.get(at) ?? []), sample])
          pods.set(sample.pod, buckets)
        }
        return [...pods]
          .sort(([a], [b]) => (a < b ? 1 : -1))
          .slice(0, mostPods)
          .map(([pod, buckets]) => ({ pod, points: [...buckets].map(([at, samples]) => pointOf(at, samples)) }))
      }),
    statements: (range) =>
      Effect.sync(() => Histogram.of(...within(range).map(({ statements }) => statements)).summary()),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const before = now - Duration.toMillis(olderThan)
        const old = [...rows].filter(([, { minute }]) => minute < before)
        for (const [key] of old) rows.delete(key)
        return old.length
      })
  }
})
