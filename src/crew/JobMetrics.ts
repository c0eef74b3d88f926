import type { AttemptEnd } from "../queue/AttemptEnd.js"
import type { ClaimedJob } from "../queue/Queue.js"
import type { Series } from "../telemetry/MetricFamily.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import type { Metrics } from "../telemetry/Metrics.js"

const specs = {
  started: MetricSpec.counter("jobs_started_total", "Runs of jobs that have begun.", ["queue", "kind"]),
  completed: MetricSpec.counter("jobs_completed_total", "Jobs that are done.", ["queue", "kind"]),
  retried: MetricSpec.counter("jobs_retried_total", "Runs after which a job is to be tried again.", ["queue", "kind"]),
  dead: MetricSpec.counter("jobs_dead_total", "Jobs that have died here.", ["queue", "kind", "reason"]),
  duration: MetricSpec.histogram("job_duration_seconds", "How long runs took.", ["queue", "kind"]),
  wait: MetricSpec.histogram("job_wait_seconds", "How long jobs waited from being due to their run.", ["queue", "kind"])
}

interface KindSeries {
  readonly started: Series
  readonly completed: Series
  readonly retried: Series
  readonly duration: Series
  readonly wait: Series
}

/** Counts the runs of one queue. Series are looked up once per kind: this is on every job's way. */
export const make = (metrics: typeof Metrics.Service, queue: string) => {
  const kinds = new Map<string, KindSeries>()

  const of = (kind: string): KindSeries => {
    const known = kinds.get(kind)
    if (known !== undefined) return known
    const labels = { queue, kind }
    const series = {
      started: metrics.series(specs.started, labels),
      completed: metrics.series(specs.completed, labels),
      retried: metrics.series(specs.retried, labels),
      duration: metrics.series(specs.duration, labels),
      wait: metrics.series(specs.wait, labels)
    }
    kinds.set(kind, series)
    return series
  }

  return {
    began: (job: ClaimedJob, now: number): void => {
      const series = of(job.kind)
      series.started.add(1)
      series.wait.observe(Math.max(0, now - job.runAt) / 1000)
    },
    ended: (job: ClaimedJob, began: number, { end }: AttemptEnd, now: number): void => {
      const series = of(job.kind)
      series.duration.observe((now - began) / 1000)
      if (end._tag === "Done") series.completed.add(1)
      else if (end._tag === "Again") series.retried.add(1)
      else metrics.series(specs.dead, { queue, kind: job.kind, reason: end.reason }).add(1)
    }
  }
}

export type JobMetrics = ReturnType<typeof make>
