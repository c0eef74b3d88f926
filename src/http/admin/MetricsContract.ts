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
  ...WireText.said(`must be a whole number of minutes in seconds, from 60 to ${mostBucketSeconds}`),
  jsonSchema: { type: "integer", minimum: 60, maximum: mostBucketSeconds, multipleOf: 60 },
  description: "How much time one point stands for; chosen by the length of the range when absent."
})

const range = {
  since: WireText.optional(Instant.annotations({ description: "An hour before `until` when absent." })),
  until: WireText.optional(Instant.annotations({ description: "Now when absent." })),
  bucket: WireText.optional(BucketSeconds)
}

/** What `GET /api/v1/metrics/series` takes. */
export const SeriesQuery = Schema.Struct({
  queue: WireText.optional(WireText.Text),
  kind: WireText.optional(WireText.Text),
  ...range
}).annotations(WireText.strict)

/** What the other routes take. */
export const RangeQuery = Schema.Struct(range).annotations(WireText.strict)
export type RangeQuery = typeof RangeQuery.Type

const Latency = Schema.Struct({
  count: Schema.Number,
  sum: Schema.Number,
  p50: Amount,
  p95: Amount,
  p99: Amount,
  max: Amount
}).annotations({ identifier: "Latency", description: "In seconds; null where nothing was measured." })

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
      rescued: Schema.Number,
      processing: Latency,
      total: Latency
    })
  )
}).annotations({ identifier: "MetricSeries" })

export const QueuesView = Schema.Struct({
  ...covered,
  measuredAt: Moment.annotations({ description: "When it was looked, which is not done at every request." }),
  queues: Schema.Array(
    Schema.Struct({
      queue: Schema.String,
      completed: Schema.Array(Schema.Int),
      dead: Schema.Array(Schema.Int)
    })
  ).annotations({ description: "Those of which jobs were done or died, a number per bucket." })
}).annotations({ identifier: "QueueSeries" })

export const PodsView = Schema.Struct({
  ...covered,
  pods: Schema.Array(
    Schema.Struct({
      pod: Schema.String,
      points: Schema.Array(
        Schema.Struct({
          at: Moment,
          cpu: Schema.Number.annotations({ description: "Processor time over elapsed time: 1 is one core, busy." }),
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
  statements: Latency.annotations({ description: "How long the statements of all pods took in the range." }),
  points: Schema.Array(Schema.Struct(facts))
}).annotations({ identifier: "DatabaseHealth" })

/** What happened, minute by minute. */
export const group = HttpApiGroup.make("metrics")
  .add(
    HttpApiEndpoint.get("series", "/metrics/series")
      .setUrlParams(SeriesQuery)
      .addSuccess(SeriesView)
      .addError(problem(400))
      .annotateContext(about("What happened to jobs, bucket by bucket, empty ones included."))
  )
  .add(
    HttpApiEndpoint.get("queues", "/metrics/queues")
      .addSuccess(QueuesView)
      .annotateContext(about("What became of the jobs of every queue in the last hour, bucket by bucket."))
  )
  .add(
    HttpApiEndpoint.get("pods", "/metrics/pods")
      .setUrlParams(RangeQuery)
      .addSuccess(PodsView)
      .addError(problem(400))
      .annotateContext(about("What each pod used: the mean of its processor time, the worst of all else."))
  )
  .add(
    HttpApiEndpoint.get("database", "/metrics/database")
      .setUrlParams(RangeQuery)
      .addSuccess(DatabaseView)
      .addError(problem(400))
      .annotateContext(about("How the database is and was."))
  )
