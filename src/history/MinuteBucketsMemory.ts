import { Clock, Duration, Effect, Layer } from "effect"
import type { PodId } from "../core/Ids.js"
import { type BucketCount, type Grain, type JobCounts, noCounts } from "../telemetry/BucketCount.js"
import { Histogram } from "../telemetry/Histogram.js"
import {
  type KindTotals,
  MinuteBuckets,
  maxTotals,
  type SeriesPoint,
  type SeriesRequest,
  throughputOf
} from "./MinuteBuckets.js"
import * as TimeGrid from "./TimeGrid.js"

interface Row {
  readonly pod: PodId
  readonly revision: number
  readonly count: BucketCount
}

const keyOf = (pod: PodId, { grain, kind, queue, start }: BucketCount) => `${grain} ${start} ${queue} ${kind} ${pod}`

const plus = (a: JobCounts, b: JobCounts): JobCounts => ({
  enqueued: a.enqueued + b.enqueued,
  started: a.started + b.started,
  completed: a.completed + b.completed,
  retried: a.retried + b.retried,
  dead: a.dead + b.dead,
  cancelled: a.cancelled + b.cancelled,
  rescued: a.rescued + b.rescued
})

const kindPoint = (at: number, counts: ReadonlyArray<BucketCount>): SeriesPoint => {
  const total = Histogram.of(...counts.map(({ total }) => total))
  return {
    at,
    ...counts.reduce(plus, noCounts),
    processing: Histogram.of(...counts.map(({ processing }) => processing)).summary(),
    total: total.summary(),
    totals: total.sketch()
  }
}

const byDeathsThenWork = (a: KindTotals, b: KindTotals) =>
  b.dead - a.dead || b.started - a.started || (`${a.queue} ${a.kind}` < `${b.queue} ${b.kind}` ? -1 : 1)

const matches =
  ({ kind, queue }: Pick<SeriesRequest, "kind" | "queue">) =>
  (count: BucketCount) =>
    (queue === undefined || count.queue === queue) && (kind === undefined || count.kind === kind)

/** Counts in memory, for tests. */
export const layer: Layer.Layer<MinuteBuckets> = Layer.sync(MinuteBuckets, () => {
  const rows = new Map<string, Row>()
  const within = ({ from, grain, to }: TimeGrid.Range & { readonly grain: Grain }) =>
    [...rows.values()]
      .map(({ count }) => count)
      .filter((count) => count.grain === grain && count.start >= from && count.start < to)

  return {
    record: (pod, revision, counts) =>
      Effect.sync(() => {
        for (const count of counts) {
          const key = keyOf(pod, count)
          if ((rows.get(key)?.revision ?? Number.NEGATIVE_INFINITY) < revision) rows.set(key, { pod, revision, count })
        }
      }),
    series: (request) =>
      Effect.map(TimeGrid.of(request, request.width), (grid) => {
        const found = new Map<number, Array<BucketCount>>()
        for (const count of within(grid).filter(matches(request))) {
          const at = Math.floor(count.start / grid.width) * grid.width
          found.set(at, [...(found.get(at) ?? []), count])
        }
        return TimeGrid.fill(grid, found, () => []).map((counts, index) =>
          kindPoint(grid.from + index * grid.width, counts)
        )
      }),
    durations: (request) =>
      Effect.sync(() => {
        const found = within(TimeGrid.outline(request)).filter(matches(request))
        return Histogram.of(...found.map(({ processing }) => processing))
      }),
    throughput: ({ width, ...range }) =>
      Effect.map(TimeGrid.of(range, width), (grid) =>
        throughputOf(
          grid,
          within(grid)
            .filter(({ completed, dead, enqueued }) => enqueued + completed + dead > 0)
            .map((count) => ({ ...count, at: Math.floor(count.start / grid.width) * grid.width }))
        )
      ),
    totals: (range) =>
      Effect.sync(() => {
        const totals = new Map<string, KindTotals>()
        for (const count of within(TimeGrid.outline(range))) {
          const { kind, queue } = count
          const key = `${queue} ${kind}`
          totals.set(key, { queue, kind, ...plus(totals.get(key) ?? noCounts, count) })
        }
        return [...totals.values()].sort(byDeathsThenWork).slice(0, maxTotals)
      }),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const before = now - Duration.toMillis(olderThan)
        const old = [...rows].filter(([, { count }]) => count.start < before)
        for (const [key] of old) rows.delete(key)
        return old.length
      })
  }
})
