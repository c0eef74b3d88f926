import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { about, Moment, problem } from "../Contract.js"
import { Instant } from "../Instant.js"
import * as WireText from "../WireText.js"

const Amount = Schema.NullOr(Schema.Number)

const mostBucketSeconds = 30 * 86_400

const BucketSeconds = Schema.NumberFromString.pipe(
  Schema.int(),
  Schema.between(60, mostBucketSeconds),
  Schema.multipleOf(60)
).annotations({
  ...WireText.withMessage(`must be a multiple of 60 seconds, from 60 to ${mostBucketSeconds}`),
  jsonSchema: { type: "integer", minimum: 60, maximum: mostBucketSeconds, multipleOf: 60 },
  description: "Seconds per point; derived from the range if omitted."
})

const range = {
  since: WireText.optional(Instant.annotations({ description: "Defaults to one hour before `until`." })),
  until: WireText.optional(Instant.annotations({ description: "Defaults to now." })),
  bucket: WireText.optional(BucketSeconds)
}

/** Query parameters of `GET /api/v1/metrics/series`. */
export const SeriesQuery = Schema.Struct({
  queue: WireText.optional(WireText.Text),
  kind: WireText.optional(WireText.Text),
  ...range
}).annotations(WireText.strict)

/** Query parameters of `GET /api/v1/metrics/durations`. */
export const DurationsQuery = Schema.Struct({
  queue: WireText.optional(WireText.Text),
  kind: WireText.optional(WireText.Text),
  since: range.since,
  until: range.until
}).annotations(WireText.strict)

/** Query parameters of the other metrics routes. */
export const RangeQuery = Schema.Struct(range).annotations(WireText.strict)
export type RangeQuery = typeof RangeQuery.Type

const Latency = Schema.Struct({
  count: Schema.Number,
  sum: Schema.Number,
  p50: Amount,
  p95: Amount,
  p99: Amount,
  max: Amount
}).annotations({ identifier: "Latency", description: "In seconds; null if nothing was measured." })

const covered = { since: Moment, until: Moment, bucketSeconds: Schema.Number }

export const SeriesView = Schema.Struct({
  ...covered,
  points: Schema.Array(
    Schema.Struct({
      at: Moment,
      enqueued: Schema.Number,
      started: Schema.Number,
      completed: Schema.Number,
      retried: Schema.Number,
      dead: Schema.Number,
      cancelled: Schema.Number.annotations({ description: "Cancelled jobs, which `dead` does not include." }),
      rescued: Schema.Number,
      processing: Latency,
      total: Latency
    })
  )
}).annotations({ identifier: "MetricSeries" })

export const DurationsView = Schema.Struct({
  since: Moment,
  until: Moment,
  processing: Latency,
  bins: Schema.Array(Schema.Struct({ from: Schema.Number, to: Schema.Number, count: Schema.Number })).annotations({
    description: "Attempts by duration in seconds, above `from` and up to `to`; empty bins are omitted."
  })
}).annotations({ identifier: "Durations" })

export const QueuesView = Schema.Struct({
  ...covered,
  measuredAt: Moment.annotations({ description: "When the values were measured; they are cached between requests." }),
  queues: Schema.Array(
    Schema.Struct({
      queue: Schema.String,
      completed: Schema.Array(Schema.Int),
      dead: Schema.Array(Schema.Int)
    })
  ).annotations({ description: "Queues with completed or dead jobs, one number per bucket." })
}).annotations({ identifier: "QueueSeries" })

export const PodsView = Schema.Struct({
  ...covered,
  pods: Schema.Array(
    Schema.Struct({
      pod: Schema.String,
      points: Schema.Array(
        Schema.Struct({
          at: Moment,
          cpu: Schema.Number.annotations({
            description: "CPU time divided by elapsed time; 1 is one fully used core."
          }),
          rssBytes: Schema.Number,
          eventLoopDelay: Schema.Struct({ p99: Schema.Number, max: Schema.Number }),
          pool: Schema.Struct({ busy: Schema.Number, idle: Schema.Number, waiting: Schema.Number }),
          statements: Latency
        })
      )
    })
  )
}).annotations({ identifier: "PodSeries" })

const facts = {
  at: Moment,
  sizeBytes: Schema.Number,
  jobBytes: Schema.Number,
  jobLiveTuples: Schema.Number,
  jobDeadTuples: Schema.Number,
  oldestTransactionSeconds: Schema.Number,
  connections: Schema.Number
}

const Blocker = Schema.Struct({
  what: Schema.Literal("session", "prepared transaction", "replication slot"),
  name: Schema.String,
  user: Schema.NullOr(Schema.String),
  application: Schema.NullOr(Schema.String),
  state: Schema.NullOr(Schema.String),
  seconds: Amount,
  transactions: Schema.Number
}).annotations({ identifier: "VacuumBlocker" })

export const DatabaseView = Schema.Struct({
  ...covered,
  now: Schema.Struct({ ...facts, blockers: Schema.Array(Blocker) }),
  statements: Latency.annotations({ description: "Statement latency of all pods in the range." }),
  points: Schema.Array(Schema.Struct(facts))
}).annotations({ identifier: "DatabaseHealth" })

export const group = HttpApiGroup.make("metrics")
  .add(
    HttpApiEndpoint.get("series", "/metrics/series")
      .setUrlParams(SeriesQuery)
      .addSuccess(SeriesView)
      .addError(problem(400))
      .annotateContext(about("Get job counts and latencies per bucket, including empty buckets."))
  )
  .add(
    HttpApiEndpoint.get("durations", "/metrics/durations")
      .setUrlParams(DurationsQuery)
      .addSuccess(DurationsView)
      .addError(problem(400))
      .annotateContext(about("Get a histogram of how long attempts took in a range."))
  )
  .add(
    HttpApiEndpoint.get("queues", "/metrics/queues")
      .addSuccess(QueuesView)
      .annotateContext(about("Get the completed and dead jobs of every queue in the last hour, per bucket."))
  )
  .add(
    HttpApiEndpoint.get("pods", "/metrics/pods")
      .setUrlParams(RangeQuery)
      .addSuccess(PodsView)
      .addError(problem(400))
      .annotateContext(
        about("Get the resource usage of each pod: the mean of its CPU usage, the maximum of all other values.")
      )
  )
  .add(
    HttpApiEndpoint.get("database", "/metrics/database")
      .setUrlParams(RangeQuery)
      .addSuccess(DatabaseView)
      .addError(problem(400))
      .annotateContext(about("Get the current and past state of the database."))
  )
