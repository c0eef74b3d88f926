import { Effect, Layer } from "effect"
import { State } from "../../core/StoredJob.js"
import { Database } from "../../database/Database.js"
import * as StatementLimits from "../../database/StatementLimits.js"
import { JobSearch, type QueueCounts } from "../../queue/search/JobSearch.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import * as OnDemand from "../OnDemand.js"

const specs = {
  jobs: MetricSpec.gauge(
    "jobs",
    "Jobs by state in the whole database. Every pod reports the same value; aggregate with max.",
    ["queue", "state"]
  ),
  oldestDue: MetricSpec.gauge("oldest_due_age_seconds", "Waiting time of the longest due job; 0 if no job is due.", [
    "queue"
  ]),
  age: MetricSpec.gauge("jobs_counted_age_seconds", "Age of the values of nightshift_jobs.")
}

/** Queue names come from users, so the number of label values is limited. */
const mostQueues = 500

/** Sets the gauges of every queue. Queues without jobs are set to 0. */
const show = (metrics: typeof Metrics.Service, shown: Set<string>, queues: ReadonlyArray<QueueCounts>) => {
  const found = new Map(queues.slice(0, mostQueues).map((counts) => [counts.queue, counts]))
  for (const queue of found.keys()) shown.add(queue)
  for (const queue of shown) {
    const { counts, oldestDueAge = 0 } = found.get(queue) ?? {}
    for (const state of State.literals) metrics.series(specs.jobs, { queue, state }).set(counts?.[state] ?? 0)
    metrics.series(specs.oldestDue, { queue }).set(oldestDueAge / 1000)
  }
}

/**
 * Queue depths for Prometheus. Counting reads the whole table, so it runs only when the metrics are scraped, and not
 * often.
 */
export const layer: Layer.Layer<never, never, Metrics | JobSearch | Database> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const metrics = yield* Metrics
    const search = yield* JobSearch
    const bounded = StatementLimits.within(yield* Database, "5 seconds")
    const shown = new Set<string>()
    const counting = yield* OnDemand.make({
      name: "the number of jobs",
      work: Effect.map(bounded(search.counts), (queues) => show(metrics, shown, queues)),
      freshFor: "15 seconds",
      restAfterFailure: "1 minute",
      patience: "1 second"
    })
    yield* metrics.onRead(
      Effect.gen(function* () {
        yield* counting.refresh
        const age = yield* counting.age
        if (age !== undefined) metrics.series(specs.age, {}).set(age / 1000)
      })
    )
  })
)
