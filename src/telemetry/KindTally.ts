import type { DeadReason } from "../core/StoredJob.js"
import { type BucketCount, bucketStart, type Grain, minuteOf, RunningCounts } from "./BucketCount.js"
import type { Series } from "./MetricFamily.js"
import * as MetricSpec from "./MetricSpec.js"
import type { Metrics } from "./Metrics.js"

const specs = {
  enqueued: MetricSpec.counter(
    "jobs_enqueued_total",
    "Jobs enqueued by this process, except in transactions of other libraries.",
    ["queue", "kind"]
  ),
  started: MetricSpec.counter("jobs_started_total", "Job attempts started.", ["queue", "kind"]),
  completed: MetricSpec.counter("jobs_completed_total", "Jobs completed.", ["queue", "kind"]),
  retried: MetricSpec.counter("jobs_retried_total", "Job attempts that ended in a retry.", ["queue", "kind"]),
  dead: MetricSpec.counter("jobs_dead_total", "Jobs that died in this process.", ["queue", "kind", "reason"]),
  rescued: MetricSpec.counter("jobs_rescued_total", "Jobs recovered from processes that stopped sending heartbeats.", [
    "queue",
    "kind"
  ]),
  duration: MetricSpec.histogram("job_duration_seconds", "Duration of job attempts.", ["queue", "kind"]),
  wait: MetricSpec.histogram("job_wait_seconds", "Time from when a job is due until it starts.", ["queue", "kind"])
}

interface RunSeries {
  readonly started: Series
  readonly completed: Series
  readonly retried: Series
  readonly duration: Series
  readonly wait: Series
}

export interface TallyOwner {
  /** Called at every count, so it must be cheap. */
  readonly touched: () => void
  /** Called when a bucket ends with counts that have not been taken. */
  readonly closed: (count: BucketCount) => void
  /** Called when a minute begins. */
  readonly began: (minute: number) => void
}

/** A bucket of several minutes; holds the minutes that have ended. */
class WideBucket {
  start = Number.NEGATIVE_INFINITY
  readonly past = new RunningCounts()

  constructor(readonly grain: Grain) {}
}

/**
 * Counters of one kind in one queue: totals since process start for Prometheus, and the current minute for the buckets.
 * Wider buckets absorb a minute when it ends. Plain calls without allocation, because every job uses them; `now`
 * selects the minute.
 */
export class KindTally {
  private minute = Number.NEGATIVE_INFINITY
  /** Attempts that have started and not ended. While there are any, the tally stays open to count their ends. */
  private running = 0
  private changed = false
  private readonly counts = new RunningCounts()
  private readonly wide = [new WideBucket(10), new WideBucket(60)]
  private runSeries: RunSeries | undefined
  private enqueuedSeries: Series | undefined
  private rescuedSeries: Series | undefined
  private readonly deadSeries = new Map<DeadReason, Series>()

  constructor(
    readonly queue: string,
    readonly kind: string,
    private readonly metrics: typeof Metrics.Service,
    private readonly owner: TallyOwner
  ) {}

  enqueued(count: number, now: number): void {
    this.at(now).enqueued += count
    this.enqueuedSeries ??= this.metrics.series(specs.enqueued, this)
    this.enqueuedSeries.add(count)
  }

  /** An attempt started this long after its job was due. */
  started(waitMillis: number, now: number): void {
    this.at(now).started += 1
    this.running += 1
    const { started, wait } = this.ofRuns()
    started.add(1)
    wait.observe(waitMillis / 1000)
  }

  /** An attempt ended, with any outcome. */
  ran(processingMillis: number, totalMillis: number, now: number): void {
    const { processing, total } = this.at(now)
    this.running = Math.max(0, this.running - 1)
    processing.record(processingMillis)
    total.record(totalMillis)
    this.ofRuns().duration.observe(processingMillis / 1000)
  }

  completed(now: number): void {
    this.at(now).completed += 1
    this.ofRuns().completed.add(1)
  }

  retried(now: number): void {
    this.at(now).retried += 1
    this.ofRuns().retried.add(1)
  }

  died(count: number, reason: DeadReason, now: number): void {
    const counts = this.at(now)
    if (reason === "cancelled") counts.cancelled += count
    else counts.dead += count
    const known = this.deadSeries.get(reason)
    const series = known ?? this.metrics.series(specs.dead, { queue: this.queue, kind: this.kind, reason })
    if (known === undefined) this.deadSeries.set(reason, series)
    series.add(count)
  }

  rescued(count: number, now: number): void {
    this.at(now).rescued += count
    this.rescuedSeries ??= this.metrics.series(specs.rescued, this)
    this.rescuedSeries.add(count)
  }

  /** Returns the open buckets if they have new counts. */
  take(): ReadonlyArray<BucketCount> {
    if (!this.changed) return []
    this.changed = false
    return [this.openMinute(), ...this.wide.map((bucket) => this.openWide(bucket))]
  }

  /** Marks taken counts as not delivered. Returns false if their bucket is no longer open. */
  returnUndelivered({ grain, start }: BucketCount): boolean {
    const open = grain === 1 ? this.minute : this.wide.find((bucket) => bucket.grain === grain)?.start
    if (start !== open) return false
    this.changed = true
    return true
  }

  /** Whether nothing was counted in the hour of this minute. A new tally of the pair then starts with new buckets. */
  isIdleAt(minute: number): boolean {
    return this.running === 0 && this.wide.every(({ grain, start }) => bucketStart(grain, minute) > start)
  }

  /** Hands over the counts that were not taken, and removes the series. */
  close(): void {
    for (const counts of this.take()) this.owner.closed(counts)
    const labels = { queue: this.queue, kind: this.kind }
    const { dead, ...plain } = specs
    for (const spec of Object.values(plain)) this.metrics.drop(spec, labels)
    for (const reason of this.deadSeries.keys()) this.metrics.drop(dead, { ...labels, reason })
  }

  /** Moves to another minute when the current one ends. A clock that goes back does not reopen a minute. */
  private at(now: number): RunningCounts {
    if (now >= this.minute + 60_000) this.open(minuteOf(now))
    this.changed = true
    this.owner.touched()
    return this.counts
  }

  private open(minute: number): void {
    if (this.changed) this.owner.closed(this.openMinute())
    for (const bucket of this.wide) {
      const start = bucketStart(bucket.grain, minute)
      if (start === bucket.start) {
        bucket.past.add(this.counts)
      } else {
        if (this.changed) this.owner.closed(this.openWide(bucket))
        bucket.start = start
        bucket.past.clear()
      }
    }
    this.minute = minute
    this.counts.clear()
    this.owner.began(minute)
  }

  private openMinute(): BucketCount {
    return this.counts.snapshot({ grain: 1, start: this.minute, queue: this.queue, kind: this.kind })
  }

  private openWide({ grain, past, start }: WideBucket): BucketCount {
    return past.snapshot({ grain, start, queue: this.queue, kind: this.kind }, this.counts)
  }

  private ofRuns(): RunSeries {
    if (this.runSeries !== undefined) return this.runSeries
    const labels = { queue: this.queue, kind: this.kind }
    this.runSeries = {
      started: this.metrics.series(specs.started, labels),
      completed: this.metrics.series(specs.completed, labels),
      retried: this.metrics.series(specs.retried, labels),
      duration: this.metrics.series(specs.duration, labels),
      wait: this.metrics.series(specs.wait, labels)
    }
    return this.runSeries
  }
}
