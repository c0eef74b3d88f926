import { Context, type Duration, type Effect } from "effect"
import { Expected } from "../core/ExpectedError.js"
import type { PodId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { BucketCount, JobCounts } from "../telemetry/BucketCount.js"
import type { Histogram, Sketch, Summary } from "../telemetry/Histogram.js"
import type { Range, TooManyPoints } from "./TimeGrid.js"
import * as TimeGrid from "./TimeGrid.js"

export interface SeriesRequest extends Range {
  /** All queues if absent. */
  readonly queue?: string | undefined
  readonly kind?: string | undefined
  /** Bucket width, in whole minutes. */
  readonly width: Duration.Duration
}

export interface SeriesPoint extends JobCounts {
  /** Start of the bucket, in epoch milliseconds. */
  readonly at: number
  /** Duration of attempts, in milliseconds. */
  readonly processing: Summary
  /** Time from due to the end of the attempt, in milliseconds. */
  readonly total: Summary
  /** `total` as a histogram, which can be merged with those of other cells. */
  readonly totals: Sketch
}

export interface KindTotals extends JobCounts {
  readonly queue: string
  readonly kind: string
}

export interface ThroughputRequest extends Range {
  /** Bucket width, in whole minutes. */
  readonly width: Duration.Duration
}

/** Enqueued, done and dead jobs of a queue per bucket, in order. */
export interface QueueThroughput {
  readonly queue: string
  readonly enqueued: ReadonlyArray<number>
  readonly completed: ReadonlyArray<number>
  readonly dead: ReadonlyArray<number>
}

export const maxMergedBuckets = 200_000

/** Too many queues, kinds and pods were active to merge, even with a bounded number of points. */
export class TooMuchToMerge extends Expected<TooMuchToMerge>(400, { field: "bucket" })("TooMuchToMerge", {}) {
  override get message(): string {
    return `The chart would have to merge more than ${maxMergedBuckets} rows. Select one queue or kind, a shorter range, or buckets of whole hours.`
  }
}

export const maxTotals = 500

/** Job statistics per minute, collected from all pods. */
export class MinuteBuckets extends Context.Tag("nightshift/history/MinuteBuckets")<
  MinuteBuckets,
  {
    /**
     * Stores a pod's counts for some buckets, replacing what it stored for them before. Idempotent; a flush with a
     * lower revision than the stored one is ignored.
     */
    readonly record: (
      pod: PodId,
      revision: number,
      counts: ReadonlyArray<BucketCount>
    ) => Effect.Effect<void, DatabaseError>

    /**
     * Returns every bucket of a range in order, including empty ones. Latencies are merged from all pods and minutes,
     * never averaged.
     */
    readonly series: (
      request: SeriesRequest
    ) => Effect.Effect<ReadonlyArray<SeriesPoint>, TooManyPoints | TooMuchToMerge | DatabaseError>

    /** The durations of attempts in a range, merged from all pods. Rounds ranges as `totals` does. */
    readonly durations: (
      request: Omit<SeriesRequest, "width">
    ) => Effect.Effect<Histogram, TooMuchToMerge | DatabaseError>

    /** Returns enqueued, done and dead counts of all queues that have any, by name, without latencies. */
    readonly throughput: (
      request: ThroughputRequest
    ) => Effect.Effect<ReadonlyArray<QueueThroughput>, TooManyPoints | TooMuchToMerge | DatabaseError>

    /**
     * Totals of a range by queue and kind, most deaths first, then busiest. Ranges over six hours are rounded out to
     * ten minutes, over three days to hours.
     */
    readonly totals: (range: Range) => Effect.Effect<ReadonlyArray<KindTotals>, DatabaseError>

    /** Deletes buckets that started longer ago than this, in bounded batches. Returns the number of rows deleted. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}

/** Enqueued, done and dead jobs of a queue in the bucket that starts at `at`. */
export interface QueueCount {
  readonly queue: string
  readonly at: number
  readonly enqueued: number
  readonly completed: number
  readonly dead: number
}

/** Returns one series of counts per queue, by name. Counts of the same bucket are summed. */
export const throughputOf = (grid: TimeGrid.Grid, counts: Iterable<QueueCount>): ReadonlyArray<QueueThroughput> => {
  const queues = new Map<string, Map<number, QueueCount>>()
  for (const count of counts) {
    const buckets = queues.get(count.queue) ?? new Map<number, QueueCount>()
    const known = buckets.get(count.at)
    buckets.set(count.at, {
      ...count,
      enqueued: count.enqueued + (known?.enqueued ?? 0),
      completed: count.completed + (known?.completed ?? 0),
      dead: count.dead + (known?.dead ?? 0)
    })
    queues.set(count.queue, buckets)
  }
  return [...queues]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([queue, buckets]) => {
      const points = TimeGrid.fill(grid, buckets, (at) => ({ queue, at, enqueued: 0, completed: 0, dead: 0 }))
      return {
        queue,
        enqueued: points.map(({ enqueued }) => enqueued),
        completed: points.map(({ completed }) => completed),
        dead: points.map(({ dead }) => dead)
      }
    })
}
