import { Histogram, type Sketch } from "./Histogram.js"

const minuteMillis = 60_000

/** The start of the minute in which an instant lies. Epoch milliseconds, both. */
export const minuteOf = (millis: number): number => Math.floor(millis / minuteMillis) * minuteMillis

/** How many minutes a bucket may hold. Wide charts read the wide ones: a week of minutes is too much to merge at a glance. */
export const grains = [1, 10, 60] as const
export type Grain = (typeof grains)[number]

/** The start of the bucket in which an instant lies. */
export const startOf = (grain: Grain, millis: number): number => {
  const length = grain * minuteMillis
  return Math.floor(millis / length) * length
}

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

/** What one process counted of one kind in one queue in one bucket: all of it so far, not what came since last time. */
export interface BucketCount extends JobCounts {
  readonly grain: Grain
  /** In epoch milliseconds. */
  readonly start: number
  readonly queue: string
  readonly kind: string
  /** How long runs took, in milliseconds. */
  readonly processing: Sketch
  /** From being due to the end of the run. */
  readonly total: Sketch
}

/** Counts that grow. */
export class RunningCounts {
  enqueued = 0
  started = 0
  completed = 0
  retried = 0
  dead = 0
  rescued = 0
  readonly processing = new Histogram()
  readonly total = new Histogram()

  add(other: RunningCounts): void {
    this.enqueued += other.enqueued
    this.started += other.started
    this.completed += other.completed
    this.retried += other.retried
    this.dead += other.dead
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
    this.rescued = 0
    this.processing.clear()
    this.total.clear()
  }

  /** These at rest, together with others where some are given. */
  sketch(other?: RunningCounts): Omit<BucketCount, "grain" | "start" | "queue" | "kind"> {
    return {
      enqueued: this.enqueued + (other?.enqueued ?? 0),
      started: this.started + (other?.started ?? 0),
      completed: this.completed + (other?.completed ?? 0),
      retried: this.retried + (other?.retried ?? 0),
      dead: this.dead + (other?.dead ?? 0),
      rescued: this.rescued + (other?.rescued ?? 0),
      processing: this.processing.sketch(other?.processing),
      total: this.total.sketch(other?.total)
    }
  }
}
