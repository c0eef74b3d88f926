import type { DeadReason } from "../core/Job.js"
import { Histogram } from "./Histogram.js"
import type { Series } from "./MetricFamily.js"
import * as MetricSpec from "./MetricSpec.js"
import type { Metrics } from "./Metrics.js"
import { type MinuteCount, minuteOf } from "./MinuteCount.js"

const specs = {
  enqueued: MetricSpec.counter("jobs_enqueued_total", "Jobs that this process has stored.", ["queue", "kind"]),
  started: MetricSpec.counter("jobs_started_total", "Runs of jobs that have begun.", ["queue", "kind"]),
  completed: MetricSpec.counter("jobs_completed_total", "Jobs that are done.", ["queue", "kind"]),
  retried: MetricSpec.counter("jobs_retried_total", "Runs after which a job is to be tried again.", ["queue", "kind"]),
  dead: MetricSpec.counter("jobs_dead_total", "Jobs that have died here.", ["queue", "kind", "reason"]),
  rescued: MetricSpec.counter("jobs_rescued_total", "Jobs taken back from pods that went quiet.", ["queue", "kind"]),
  duration: MetricSpec.histogram("job_duration_seconds", "How long runs took.", ["queue", "kind"]),
  wait: MetricSpec.histogram("job_wait_seconds", "How long jobs waited from being due to their run.", ["queue", "kind"])
}

interface RunSeries {
  readonly started: Series
  readonly completed: Series
  readonly retried: Series
  readonly duration: Series
  readonly wait: Series
}

/** Who wants to know of counts. */
export interface TallyOwner {
  /** Something was counted. Called at every count, so it must cost nothing. */
  readonly touched: () => void
  /** A minute is over that has counts nobody has taken yet. */
  readonly closed: (count: MinuteCount) => void
}

/**
 * What this process counts of one kind in one queue: since its start for Prometheus, and of the open minute for the
 * buckets. Plain calls without allocation, because every job passes here; `now` says which minute a count belongs to.
 */
export class KindTally {
  private minute = Number.NEGATIVE_INFINITY
  private changed = false
  private enqueuedNow = 0
  private startedNow = 0
  private completedNow = 0
  private retriedNow = 0
  private deadNow = 0
  private rescuedNow = 0
  private readonly processing = new Histogram()
  private readonly total = new Histogram()
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
    this.at(now)
    this.enqueuedNow += count
    this.enqueuedSeries ??= this.metrics.series(specs.enqueued, this)
    this.enqueuedSeries.add(count)
  }

  /** A run began, so long after its job was due. */
  started(waitMillis: number, now: number): void {
    this.at(now)
    this.startedNow += 1
    const { started, wait } = this.ofRuns()
    started.add(1)
    wait.observe(waitMillis / 1000)
  }

  /** A run is over, whatever became of its job. */
  ran(processingMillis: number, totalMillis: number, now: number): void {
    this.at(now)
    this.processing.record(processingMillis)
    this.total.record(totalMillis)
    this.ofRuns().duration.observe(processingMillis / 1000)
  }

  completed(now: number): void {
    this.at(now)
    this.completedNow += 1
    this.ofRuns().completed.add(1)
  }

  retried(now: number): void {
    this.at(now)
    this.retriedNow += 1
    this.ofRuns().retried.add(1)
  }

  died(count: number, reason: DeadReason, now: number): void {
    this.at(now)
    this.deadNow += count
    const known = this.deadSeries.get(reason)
    const series = known ?? this.metrics.series(specs.dead, { queue: this.queue, kind: this.kind, reason })
    if (known === undefined) this.deadSeries.set(reason, series)
    series.add(count)
  }

  rescued(count: number, now: number): void {
    this.at(now)
    this.rescuedNow += count
    this.rescuedSeries ??= this.metrics.series(specs.rescued, this)
    this.rescuedSeries.add(count)
  }

  /** The open minute, if anything of it is new. */
  take(): MinuteCount | undefined {
    if (!this.changed) return undefined
    this.changed = false
    return this.snapshot()
  }

  /** What was taken did not arrive. False when its minute is no longer open here. */
  giveBack(minute: number): boolean {
    if (minute !== this.minute) return false
    this.changed = true
    return true
  }

  /** Moves on to another minute when this one is over. Time that runs backwards does not reopen one. */
  private at(now: number): void {
    if (now >= this.minute + 60_000) this.open(minuteOf(now))
    this.changed = true
    this.owner.touched()
  }

  private open(minute: number): void {
    if (this.changed) this.owner.closed(this.snapshot())
    this.minute = minute
    this.enqueuedNow = 0
    this.startedNow = 0
    this.completedNow = 0
    this.retriedNow = 0
    this.deadNow = 0
    this.rescuedNow = 0
    this.processing.clear()
    this.total.clear()
  }

  private snapshot(): MinuteCount {
    return {
      minute: this.minute,
      queue: this.queue,
      kind: this.kind,
      enqueued: this.enqueuedNow,
      started: this.startedNow,
      completed: this.completedNow,
      retried: this.retriedNow,
      dead: this.deadNow,
      rescued: this.rescuedNow,
      processing: this.processing.sketch(),
      total: this.total.sketch()
    }
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
