import type { Sketch } from "./Histogram.js"

/** The start of the minute in which an instant lies. Epoch milliseconds, both. */
export const minuteOf = (millis: number): number => Math.floor(millis / 60_000) * 60_000

/** What happened to jobs, as numbers. */
export interface JobCounts {
  /** Stored. */
  readonly enqueued: number
  /** Runs that began. */
  readonly started: number
  readonly completed: number
  /** Runs after which the job is to be tried again. */
  readonly retried: number
  readonly dead: number
  /** Taken back from a pod that went quiet. */
  readonly rescued: number
}

export const noCounts: JobCounts = { enqueued: 0, started: 0, completed: 0, retried: 0, dead: 0, rescued: 0 }

/** What one process counted of one kind in one queue in one minute: all of it so far, not what came since last time. */
export interface MinuteCount extends JobCounts {
  /** Its start, in epoch milliseconds. */
  readonly minute: number
  readonly queue: string
  readonly kind: string
  /** How long runs took, in milliseconds. */
  readonly processing: Sketch
  /** From being due to the end of the run. */
  readonly total: Sketch
}
