import { Clock, Duration, Effect, Layer, Option } from "effect"
import type { PodId } from "../core/Ids.js"
import { inOrder } from "../core/LayersInOrder.js"
import { type BucketCount, type Grain, type JobCounts, minuteOf, noCounts } from "../telemetry/BucketCount.js"
import { Histogram } from "../telemetry/Histogram.js"
import { type DatabaseFacts, DatabaseHealth, type DatabasePoint, type Health } from "./DatabaseHealth.js"
import type { Measures } from "./Measures.js"
import {
  type KindTotals,
  MinuteBuckets,
  mostTotals,
  type SeriesPoint,
  type SeriesRequest,
  throughputOf
} from "./MinuteBuckets.js"
import { mostPods, type PodPoint, type PodSample, PodSamples } from "./PodSamples.js"
import { mostWaits, type QueueWait, QueueWaits } from "./QueueWaits.js"
import * as TimeGrid from "./TimeGrid.js"

const well: DatabaseFacts = {
  sizeBytes: 0,
  jobBytes: 0,
  jobLiveTuples: 0,
  jobDeadTuples: 0,
  oldestTransactionSeconds: 0,
  connections: 0
}

const worse = (a: DatabaseFacts, b: DatabaseFacts): DatabaseFacts => ({
  sizeBytes: Math.max(a.sizeBytes, b.sizeBytes),
  jobBytes: Math.max(a.jobBytes, b.jobBytes),
  jobLiveTuples: Math.max(a.jobLiveTuples, b.jobLiveTuples),
  jobDeadTuples: Math.max(a.jobDeadTuples, b.jobDeadTuples),
  oldestTransactionSeconds: Math.max(a.oldestTransactionSeconds, b.oldestTransactionSeconds),
  connections: Math.max(a.connections, b.connections)
})

/** For tests without a database; always healthy. */
const databaseHealth: Layer.Layer<DatabaseHealth> = Layer.sync(DatabaseHealth, () => {
  const rows = new Map<number, DatabaseFacts>()
  const check = Effect.map(Clock.currentTimeMillis, (at): Health => ({ at, ...well, blockers: [] }))
  return {
    check,
    sessions: Effect.succeed({ limit: Number.POSITIVE_INFINITY, others: 0 }),
    sample: Effect.map(check, (health) => {
      const minute = minuteOf(health.at)
      if (rows.has(minute)) return Option.none()
      rows.set(minute, well)
      return Option.some(health)
    }),
    series: ({ width, ...range }) =>
      Effect.map(TimeGrid.of(range, width), (grid) => {
        const points = new Map<number, DatabasePoint>()
        for (const [minute, facts] of [...rows].sort(([a], [b]) => a - b)) {
          if (minute < grid.from || minute >= grid.to) continue
          const at = Math.floor(minute / grid.width) * grid.width
          points.set(at, { at, ...worse(points.get(at) ?? well, facts) })
        }
        return [...points.values()]
      }),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const old = [...rows.keys()].filter((minute) => minute < now - Duration.toMillis(olderThan))
        for (const minute of old) rows.delete(minute)
        return old.length
      })
  }
})

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

const kindPoint = (at: number, counts: ReadonlyArray<BucketCount>): SeriesPoint => ({
  at,
  ...counts.reduce(plus, noCounts),
  processing: Histogram.of(...counts.map(({ processing }) => processing)).summary(),
  total: Histogram.of(...counts.map(({ total }) => total)).summary()
})

const byDeathsThenWork = (a: KindTotals, b: KindTotals) =>
  b.dead - a.dead || b.started - a.started || (`${a.queue} ${a.kind}` < `${b.queue} ${b.kind}` ? -1 : 1)

const matches =
  ({ kind, queue }: Pick<SeriesRequest, "kind" | "queue">) =>
  (count: BucketCount) =>
    (queue === undefined || count.queue === queue) && (kind === undefined || count.kind === kind)

export const minuteBuckets: Layer.Layer<MinuteBuckets> = Layer.sync(MinuteBuckets, () => {
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
            .filter(({ completed, dead }) => completed + dead > 0)
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
        return [...totals.values()].sort(byDeathsThenWork).slice(0, mostTotals)
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

const worst = (samples: ReadonlyArray<PodSample>, of: (sample: PodSample) => number) => Math.max(0, ...samples.map(of))

const podPoint = (at: number, samples: ReadonlyArray<PodSample>): PodPoint => ({
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

const podSamples: Layer.Layer<PodSamples> = Layer.sync(PodSamples, () => {
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
          .map(([pod, buckets]) => ({ pod, points: [...buckets].map(([at, samples]) => podPoint(at, samples)) }))
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

export const queueWaits: Layer.Layer<QueueWaits> = Layer.sync(QueueWaits, () => {
  let rows: ReadonlyArray<QueueWait> = []
  return {
    open: Effect.sync(() => rows.filter(({ until }) => until === undefined)),
    change: (changes) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const names = new Set(changes.map(({ queue }) => queue))
        const ended = rows.map((row) =>
          row.until === undefined && names.has(row.queue) ? { ...row, until: now } : row
        )
        const begun = changes.flatMap(({ queue, reason }) =>
          reason === undefined ? [] : [{ queue, reason, since: now, until: undefined }]
        )
        rows = [...ended, ...begun]
      }),
    during: (queue, { from, to }) =>
      Effect.sync(() =>
        rows
          .filter((row) => row.queue === queue && row.since < to && (row.until === undefined || row.until > from))
          .slice(-mostWaits)
      ),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const kept = rows.filter(({ until = now }) => until >= now - Duration.toMillis(olderThan))
        const count = rows.length - kept.length
        rows = kept
        return count
      })
  }
})

export const layer: Layer.Layer<Measures> = inOrder(minuteBuckets, queueWaits, podSamples, databaseHealth)
