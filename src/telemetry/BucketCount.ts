import { Histogram, type Sketch } from "./Histogram.js"

const minuteMillis = 60_000

/** Start of the minute that contains a time, both in epoch milliseconds. */
export const minuteOf = (millis: number): number => Math.floor(millis / minuteMillis) * minuteMillis

/** Bucket widths in minutes. Wide charts read the wide buckets: a week of minutes is too much to merge. */
export const grains = [1, 10, 60] as const
export type Grain = (typeof grains)[number]

export const bucketStart = (grain: Grain, millis: number): number => {
  const length = grain * minuteMillis
  return Math.floor(millis / length) * length
}

export interface JobCounts {
  readonly enqueued: number
  readonly started: number
  readonly completed: number
  /** Attempts that ended in a retry. */
  readonly retried: number
  readonly dead: number
  /** Jobs that an operator or their handler cancelled; not counted as dead. */
  readonly cancelled: number
  /** Jobs recovered from pods that stopped sending heartbeats. */
  readonly rescued: number
}

export const noCounts: JobCounts = {
  enqueued: 0,
  started: 0,
  completed: 0,
  retried: 0,
  dead: 0,
  cancelled: 0,
  rescued: 0
}

/** What is counted: one kind in one queue during a stretch of time. */
interface Bucket {
  readonly grain: Grain
  /** In epoch milliseconds. */
  readonly start: number
  readonly queue: string
  readonly kind: string
}

/** Counts of one process in one bucket: the running total, not a delta. */
export interface BucketCount extends Bucket, JobCounts {
  /** Duration of attempts, in milliseconds. */
  readonly processing: Sketch
  /** Time from due to the end of the attempt, in milliseconds. */
  readonly total: Sketch
}

export class RunningCounts {
  enqueued = 0
  started = 0
  completed = 0
  retried = 0
  dead = 0
  cancelled = 0
  rescued = 0
  readonly processing = new Histogram()
  readonly total = new Histogram()

  add(other: RunningCounts): void {
    this.enqueued += other.enqueued
    this.started += other.started
    this.completed += other.completed
    this.retried += other.retried
    this.dead += other.dead
    this.cancelled += other.cancelled
    this.rescued += other.rescued
    this.processing.add(other.processing.sketch())
    this.total.add(other.total.sketch())
  }

  clear(): void {
    this.enqueued = 0
    this.started = 0
    this.completed = 0
    this.retried = 0
    this.dead = 0
    this.cancelled = 0
    this.rescued = 0
    this.processing.clear()
    this.total.clear()
  }

  /** A snapshot of these counters, merged with `other` if given, as the counts of a bucket. */
  snapshot({ grain, kind, queue, start }: Bucket, other?: RunningCounts): BucketCount {
    return {
      grain,
      start,
      queue,
      kind,
      enqueued: this.enqueued + (other?.enqueued ?? 0),
      started: this.started + (other?.started ?? 0),
      completed: this.completed + (other?.completed ?? 0),
      retried: this.retried + (other?.retried ?? 0),
      dead: this.dead + (other?.dead ?? 0),
      cancelled: this.cancelled + (other?.cancelled ?? 0),
      rescued: this.rescued + (other?.rescued ?? 0),
      processing: this.processing.sketch(other?.processing),
      total: this.total.sketch(other?.total)
    }
  }
}
