import { Context, type Duration, type Effect } from "effect"
import type { PodId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Sketch, Summary } from "../telemetry/Histogram.js"
import type { Range, TooManyPoints } from "./TimeGrid.js"

/** What a process used in the minute or so before an instant. */
export interface Usage {
  /** Processor time over elapsed time: 1 is one core, busy. */
  readonly cpu: number
  readonly rssBytes: number
  /** By how much callbacks were late, in seconds. */
  readonly eventLoop: { readonly p99: number; readonly max: number }
  readonly pool: { readonly busy: number; readonly idle: number; readonly waiting: number }
}

export interface PodSample extends Usage {
  /** The start of its minute, in epoch milliseconds. */
  readonly minute: number
  readonly pod: PodId
  /** How long its statements took, in milliseconds. */
  readonly statements: Sketch
}

/** One bucket of a pod's life: the mean of its processor time, and the worst of everything else. */
export interface PodPoint extends Usage {
  readonly at: number
  readonly statements: Summary
}

export interface PodSeries {
  readonly pod: PodId
  /** Only buckets in which it lived, oldest first. */
  readonly points: ReadonlyArray<PodPoint>
}

/** How many pods a reading holds, the newest first. */
export const mostPods = 100

/** What pods used, minute by minute. */
export class PodSamples extends Context.Tag("nightshift/measures/PodSamples")<
  PodSamples,
  {
    /** Keeps a sample; a second one of the same minute replaces it. */
    readonly record: (sample: PodSample) => Effect.Effect<void, DatabaseError>

    /** The pods that lived in a range, newest first, and what they used. */
    readonly series: (
      request: Range & { readonly width: Duration.Duration }
    ) => Effect.Effect<ReadonlyArray<PodSeries>, TooManyPoints | DatabaseError>

    /** How long the statements of all pods took in a range, in milliseconds. */
    readonly statements: (range: Range) => Effect.Effect<Summary, DatabaseError>

    /** Forgets minutes older than this, in bounded batches. Returns how many rows went. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}
