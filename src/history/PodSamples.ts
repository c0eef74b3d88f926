import { Context, type Duration, type Effect } from "effect"
import type { PodId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Sketch, Summary } from "../telemetry/Histogram.js"
import type { Range, TooManyPoints } from "./TimeGrid.js"

/** Resource usage of a process over about the last minute. */
export interface Usage {
  /** CPU time divided by elapsed time: 1 is one busy core. */
  readonly cpu: number
  readonly rssBytes: number
  /** Event loop delay, in seconds. */
  readonly eventLoop: { readonly p99: number; readonly max: number }
  readonly pool: { readonly busy: number; readonly idle: number; readonly waiting: number }
}

export interface PodSample extends Usage {
  /** Start of the minute, in epoch milliseconds. */
  readonly minute: number
  readonly pod: PodId
  /** Duration of its SQL statements, in milliseconds. */
  readonly statements: Sketch
}

/** Usage of a pod in one bucket: mean CPU, maximum of everything else. */
export interface PodPoint extends Usage {
  readonly at: number
  readonly statements: Summary
}

export interface PodSeries {
  readonly pod: PodId
  /** Only buckets with samples, oldest first. */
  readonly points: ReadonlyArray<PodPoint>
}

/** Maximum number of pods returned, newest first. */
export const maxPods = 100

/** Resource usage of pods per minute. */
export class PodSamples extends Context.Tag("nightshift/history/PodSamples")<
  PodSamples,
  {
    /** Stores a sample, replacing one of the same minute. */
    readonly record: (sample: PodSample) => Effect.Effect<void, DatabaseError>

    /** Returns the pods that have samples in a range, newest first. */
    readonly series: (
      request: Range & {
        /** Length of one bucket. */
        readonly width: Duration.Duration
      }
    ) => Effect.Effect<ReadonlyArray<PodSeries>, TooManyPoints | DatabaseError>

    /** Duration of the SQL statements of all pods in a range, in milliseconds. */
    readonly statements: (range: Range) => Effect.Effect<Summary, DatabaseError>

    /** Deletes samples older than this, in bounded batches. Returns the number of rows deleted. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}
