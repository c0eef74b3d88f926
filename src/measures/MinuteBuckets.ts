import { Context, type Duration, type Effect, Schema } from "effect"
import type { PodId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { BucketCount, JobCounts } from "../telemetry/BucketCount.js"
import type { Summary } from "../telemetry/Histogram.js"
import type { Range, TooManyPoints } from "./TimeGrid.js"

export interface SeriesRequest extends Range {
  /** All of them when absent. */
  readonly queue?: string | undefined
  readonly kind?: string | undefined
  /** How much time one point stands for: whole minutes. */
  readonly width: Duration.Duration
}

/** What happened in one bucket. */
export interface SeriesPoint extends JobCounts {
  /** Its start, in epoch milliseconds. */
  readonly at: number
  /** How long runs took, in milliseconds. */
  readonly processing: Summary
  /** From being due to the end of the run. */
  readonly total: Summary
}

export interface KindTotals extends JobCounts {
  readonly queue: string
  readonly kind: string
}

export interface ThroughputRequest extends Range {
  /** How much time one number stands for: whole minutes. */
  readonly width: Duration.Duration
}

/** How many jobs of a queue were done and died in each bucket of a range, in order. */
export interface QueueThroughput {
  readonly queue: string
  readonly completed: ReadonlyArray<number>
  readonly dead: ReadonlyArray<number>
}

/** How many rows a chart may be merged from. */
export const mostMerged = 200_000

/** So many queues, kinds and pods were at work that even a bounded number of points is too much to gather. */
export class TooMuchToMerge extends Schema.TaggedError<TooMuchToMerge>()("TooMuchToMerge", {}) {
  override get message(): string {
    return `More than ${mostMerged} counts would have to be merged. Ask for one queue or kind, for a shorter range, or for buckets of whole hours.`
  }
}

/** How many kinds `totals` names at most. */
export const mostTotals = 500

/** What happened to jobs, minute by minute, gathered from all pods. */
export class MinuteBuckets extends Context.Tag("nightshift/measures/MinuteBuckets")<
  MinuteBuckets,
  {
    /**
     * Writes what a pod counted in some buckets, whole, in the place of what it wrote of them before. The same again
     * changes nothing, and neither does a flush that arrives after one with a higher revision.
     */
    readonly record: (
      pod: PodId,
      revision: number,
      counts: ReadonlyArray<BucketCount>
    ) => Effect.Effect<void, DatabaseError>

    /** Every bucket of a range in order, empty ones too. Latencies are merged from all pods and minutes, never averaged. */
    readonly series: (
      request: SeriesRequest
    ) => Effect.Effect<ReadonlyArray<SeriesPoint>, TooManyPoints | TooMuchToMerge | DatabaseError>

    /** The same of all queues at once, by name, as far as jobs of them were done or died; no latencies. */
    readonly throughput: (
      request: ThroughputRequest
    ) => Effect.Effect<ReadonlyArray<QueueThroughput>, TooManyPoints | TooMuchToMerge | DatabaseError>

    /**
     * What happened in a range by queue and kind, those with the most deaths first, then the busiest. A range of more than
     * six hours is rounded outwards to ten minutes, one of more than three days to hours.
     */
    readonly totals: (range: Range) => Effect.Effect<ReadonlyArray<KindTotals>, DatabaseError>

    /** Forgets buckets that began longer ago than this, in bounded batches. Returns how many rows went. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}
