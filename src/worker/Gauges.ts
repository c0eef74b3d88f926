import { Effect, Layer, type Scope } from "effect"
import { State } from "../core/StoredJob.js"
import { Database, within } from "../database/Database.js"
import { DatabaseTime } from "../database/DatabaseClock.js"
import * as Package from "../database/Package.js"
import { DatabaseHealth, type Health } from "../history/DatabaseHealth.js"
import { JobSearch, type QueueCounts } from "../queue/search/JobSearch.js"
import { Queues } from "../queue/settings/QueueSettings.js"
import { maxCounted as maxExecutions, Workflows } from "../queue/workflow/Workflows.js"
import { EventLoop } from "../telemetry/EventLoop.js"
import type { Series } from "../telemetry/MetricFamily.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"
import * as OnDemand from "./OnDemand.js"

const specs = {
  buildInfo: MetricSpec.gauge("build_info", "Always 1; the label is the running release.", ["version"]),
  memory: MetricSpec.gauge("process_resident_memory_bytes", "Memory used by this process."),
  cpu: MetricSpec.counter("process_cpu_seconds_total", "CPU time used by this process."),
  eventLoop: MetricSpec.summary("event_loop_delay_seconds", "Event loop delay since the last scrape."),
  pool: MetricSpec.gauge("database_pool", "Connections for Nightshift's own statements, by state.", ["state"]),
  handlerPool: MetricSpec.gauge(
    "database_handler_pool",
    "Connections for handlers and the program's own statements, by state.",
    ["state"]
  ),
  unanswered: MetricSpec.counter(
    "database_unanswered_total",
    "Statements that PostgreSQL did not answer in time. Their connections were closed."
  ),
  replicaLag: MetricSpec.gauge(
    "database_replica_lag_seconds",
    "How far the replica in DATABASE_READ_URL is behind; absent without one, NaN if it does not answer."
  ),
  clockOffset: MetricSpec.gauge(
    "clock_offset_seconds",
    "Offset of the database's clock from this machine's; positive if the database is ahead."
  ),
  operations: MetricSpec.histogram(
    "database_op_seconds",
    "Statement duration, from sending to the answer.",
    ["op"],
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
  ),
  size: MetricSpec.gauge("database_size_bytes", "Size of the database on disk."),
  jobBytes: MetricSpec.gauge("job_table_bytes", "Size of the job table on disk, including indexes."),
  deadTuples: MetricSpec.gauge("job_table_dead_tuples", "Dead rows of the job table that vacuum has not removed."),
  oldestTransaction: MetricSpec.gauge(
    "database_oldest_transaction_seconds",
    "Age of the oldest transaction that blocks vacuum."
  )
}

/** Process metrics that are computed when the metrics are scraped. */
export const layer: Layer.Layer<never, never, Metrics | EventLoop> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const metrics = yield* Metrics
    const delays = yield* yield* Effect.map(EventLoop, (loop) => loop.watch)
    metrics.series(specs.buildInfo, { version: Package.version.text }).set(1)
    yield* metrics.onRead(
      Effect.gen(function* () {
        metrics.series(specs.memory, {}).set(process.memoryUsage.rss())
        const { system, user } = process.cpuUsage()
        metrics.series(specs.cpu, {}).set((system + user) / 1e6)
        const { max, p99 } = yield* delays
        metrics.series(specs.eventLoop, { quantile: "0.99" }).set(p99)
        metrics.series(specs.eventLoop, { quantile: "1" }).set(max)
      })
    )
  })
)

const showHealth = (metrics: typeof Metrics.Service, health: Health) => {
  metrics.series(specs.size, {}).set(health.sizeBytes)
  metrics.series(specs.jobBytes, {}).set(health.jobBytes)
  metrics.series(specs.deadTuples, {}).set(health.jobDeadTuples)
  metrics.series(specs.oldestTransaction, {}).set(health.oldestTransactionSeconds)
}

/** Metrics about the database and this process's use of it. */
export const layerDatabase: Layer.Layer<never, never, Metrics | Database | DatabaseTime | DatabaseHealth> =
  Layer.scopedDiscard(
    Effect.gen(function* () {
      const metrics = yield* Metrics
      const database = yield* Database
      const time = yield* DatabaseTime
      const health = yield* DatabaseHealth
      const offset = metrics.series(specs.clockOffset, {})
      const unanswered = metrics.series(specs.unanswered, {})
      const operations = new Map<string, Series>()
      yield* database.onStatement((op, millis) => {
        const series = operations.get(op) ?? metrics.series(specs.operations, { op })
        operations.set(op, series)
        series.observe(millis / 1000)
      })
      const looking = yield* OnDemand.make({
        name: "the database's health",
        work: Effect.map(health.check, (seen) => showHealth(metrics, seen)),
        freshFor: "15 seconds",
        restAfterFailure: "1 minute",
        timeout: "1 second"
      })
      yield* metrics.onRead(
        Effect.gen(function* () {
          const use = yield* database.poolUse
          const handlerUse = yield* database.handlerPoolUse
          for (const state of ["busy", "idle", "waiting"] as const) {
            metrics.series(specs.pool, { state }).set(use[state])
            metrics.series(specs.handlerPool, { state }).set(handlerUse[state])
          }
          unanswered.set(yield* database.unansweredStatements)
          offset.set((yield* time.offsetMillis) / 1000)
          yield* looking.refresh
          const replica = yield* health.replica
          if (replica !== undefined) metrics.series(specs.replicaLag, {}).set(replica.lagSeconds ?? Number.NaN)
        })
      )
    })
  )

const jobSpecs = {
  jobs: MetricSpec.gauge(
    "jobs",
    "Jobs by state in the whole database; large numbers are estimates. Every process reports the same value; aggregate with max.",
    ["queue", "state"]
  ),
  oldestDue: MetricSpec.gauge("oldest_due_age_seconds", "Waiting time of the longest due job; 0 if no job is due.", [
    "queue"
  ]),
  age: MetricSpec.gauge("jobs_counted_age_seconds", "Age of the values of nightshift_jobs.")
}

/** Queue names come from users, so the number of label values is limited. */
const maxQueues = 500

/** Sets the gauges of every queue. Queues without jobs are set to 0. */
const showCounts = (metrics: typeof Metrics.Service, shown: Set<string>, queues: ReadonlyArray<QueueCounts>) => {
  const found = new Map(queues.slice(0, maxQueues).map((counts) => [counts.queue, counts]))
  for (const queue of found.keys()) shown.add(queue)
  for (const queue of shown) {
    const { counts, oldestDueAge = 0 } = found.get(queue) ?? {}
    for (const state of State.literals) metrics.series(jobSpecs.jobs, { queue, state }).set(counts?.[state].value ?? 0)
    metrics.series(jobSpecs.oldestDue, { queue }).set(oldestDueAge / 1000)
  }
}

/**
 * Queue depths for Prometheus. Counting reads the whole table, so it runs only when the metrics are scraped, and not
 * often.
 */
export const layerJobs: Layer.Layer<never, never, Metrics | JobSearch | Database> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const metrics = yield* Metrics
    const search = yield* JobSearch
    const bounded = within(yield* Database, "5 seconds")
    const shown = new Set<string>()
    const counting = yield* OnDemand.make({
      name: "the number of jobs",
      work: Effect.map(bounded(search.counts), (queues) => showCounts(metrics, shown, queues)),
      freshFor: "15 seconds",
      restAfterFailure: "1 minute",
      timeout: "1 second"
    })
    yield* metrics.onRead(
      Effect.gen(function* () {
        yield* counting.refresh
        const age = yield* counting.age
        if (age !== undefined) metrics.series(jobSpecs.age, {}).set(age / 1000)
      })
    )
  })
)

const paused = MetricSpec.gauge("queue_paused", "1 while an operator has paused the queue.", ["queue"])
const throttled = MetricSpec.gauge("queue_throttled", "1 while the queue is cooling down.", ["queue"])
const maxWorkers = MetricSpec.gauge("queue_max_workers", "Configured slots of the queue in the whole cluster.", [
  "queue"
])

/** Exports the settings of these queues when the metrics are scraped. */
export const watchQueues = (
  queues: ReadonlyArray<string>
): Effect.Effect<void, never, Queues | Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const { known } = yield* Queues
    const metrics = yield* Metrics
    yield* metrics.onRead(
      Effect.sync(() => {
        for (const queue of queues) {
          const settings = known(queue)
          if (settings === undefined) continue
          metrics.series(paused, { queue }).set(settings.paused ? 1 : 0)
          metrics.series(throttled, { queue }).set(settings.throttledUntil === undefined ? 0 : 1)
          metrics.series(maxWorkers, { queue }).set(settings.maxWorkers)
        }
      })
    )
  })

const suspended = MetricSpec.gauge(
  "workflow_executions_suspended",
  `Workflow executions that wait, in the whole database; counting stops at ${maxExecutions}. Aggregate with max.`,
  ["state"]
)

/** Counts suspended executions when the metrics are scraped. The rate and duration of the count are limited. */
export const layerExecutions: Layer.Layer<never, never, Metrics | Workflows | Database> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const metrics = yield* Metrics
    const workflows = yield* Workflows
    const bounded = within(yield* Database, "5 seconds")
    const counting = yield* OnDemand.make({
      name: "the number of suspended executions",
      work: Effect.map(bounded(workflows.suspended), (counts) => {
        for (const state of ["sleeping", "waiting", "changed"] as const)
          metrics.series(suspended, { state }).set(counts[state])
      }),
      freshFor: "15 seconds",
      restAfterFailure: "1 minute",
      timeout: "1 second"
    })
    yield* metrics.onRead(counting.refresh)
  })
)
