import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Duration, Effect, type Layer, Schema } from "effect"
import * as DurationText from "../../core/DurationText.js"
import { reading } from "../../database/Replica.js"
import { DatabaseHealth } from "../../history/DatabaseHealth.js"
import { MinuteBuckets, type SeriesPoint } from "../../history/MinuteBuckets.js"
import { type PodPoint, PodSamples } from "../../history/PodSamples.js"
import * as TimeGrid from "../../history/TimeGrid.js"
import type { Summary } from "../../telemetry/Histogram.js"
import { about, apiOf } from "../Contract.js"
import * as Instant from "../Instant.js"
import { BadRequest } from "../RequestErrors.js"
import * as ResponseFields from "../ResponseFields.js"
import * as WireDuration from "../WireDuration.js"
import * as WireText from "../WireText.js"
import { ThroughputCache } from "./ThroughputCache.js"

const Amount = Schema.NullOr(Schema.Number)

const minute = Duration.toMillis("1 minute")
const maxBucket = Duration.toMillis("30 days")

const Bucket = WireDuration.parameter("Duration of a point, such as 5m; derived from the range if omitted.", {
  if: (millis) => millis >= minute && millis <= maxBucket && millis % minute === 0,
  message: "must be a duration of whole minutes from 1m to 30d, such as 5m"
})

const range = {
  ...Instant.range,
  bucket: WireText.optional(Bucket)
}

const scope = {
  queue: WireText.optional(WireText.Text.annotations({ description: "Only jobs of this queue." })),
  kind: WireText.optional(WireText.Text.annotations({ description: "Only jobs of this kind." }))
}

/** Query parameters of `GET /api/v1/metrics/series`. */
const SeriesQuery = Schema.Struct({ ...scope, ...range }).annotations(WireText.strict)

/** Query parameters of `GET /api/v1/metrics/durations`. */
const DurationsQuery = Schema.Struct({ ...scope, ...Instant.range }).annotations(WireText.strict)

/** Query parameters of the other metrics routes. */
const RangeQuery = Schema.Struct(range).annotations(WireText.strict)
type RangeQuery = typeof RangeQuery.Type

export const Latency = Schema.Struct({
  count: Schema.Number,
  sum: Schema.Number,
  p50: Amount,
  p95: Amount,
  p99: Amount,
  max: Amount
}).annotations({ identifier: "Latency", description: "In seconds; null if nothing was measured." })

const coveredFields = { since: Instant.Moment, until: Instant.Moment, bucket: WireDuration.text() }

export const SeriesView = Schema.Struct({
  ...coveredFields,
  points: Schema.Array(
    Schema.Struct({
      at: Instant.Moment,
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
  since: Instant.Moment,
  until: Instant.Moment,
  processing: Latency,
  bins: Schema.Array(Schema.Struct({ from: Schema.Number, to: Schema.Number, count: Schema.Number })).annotations({
    description: "Attempts by duration in seconds, above `from` and up to `to`; empty bins are omitted."
  })
}).annotations({ identifier: "Durations" })

export const QueuesView = Schema.Struct({
  ...coveredFields,
  measuredAt: Instant.Moment.annotations({
    description: "When the values were measured; they are cached between requests."
  }),
  queues: Schema.Array(
    Schema.Struct({
      queue: Schema.String,
      enqueued: Schema.Array(Schema.Int),
      completed: Schema.Array(Schema.Int),
      dead: Schema.Array(Schema.Int)
    })
  ).annotations({ description: "Queues with enqueued, completed or dead jobs, one number per bucket." })
}).annotations({ identifier: "QueueSeries" })

export const PodsView = Schema.Struct({
  ...coveredFields,
  pods: Schema.Array(
    Schema.Struct({
      pod: Schema.String,
      points: Schema.Array(
        Schema.Struct({
          at: Instant.Moment,
          cpu: Schema.Number.annotations({
            description: "CPU time divided by elapsed time; 1 is one fully used core."
          }),
          rssBytes: Schema.Number,
          eventLoopDelay: Schema.Struct({ p99: Schema.Number, max: Schema.Number }).annotations({
            description: "In seconds."
          }),
          pool: Schema.Struct({ busy: Schema.Number, idle: Schema.Number, waiting: Schema.Number }),
          statements: Latency
        })
      )
    })
  )
}).annotations({ identifier: "PodSeries" })

const Facts = Schema.Struct({
  at: Instant.Moment,
  sizeBytes: Schema.Number,
  jobBytes: Schema.Number,
  jobLiveTuples: Schema.Number,
  jobDeadTuples: Schema.Number,
  oldestTransactionSeconds: Schema.Number,
  connections: Schema.Number
})

const Blocker = Schema.Struct({
  what: Schema.Literal("session", "prepared transaction", "replication slot"),
  name: Schema.String,
  user: Schema.NullOr(Schema.String),
  application: Schema.NullOr(Schema.String),
  state: Schema.NullOr(Schema.String),
  seconds: Amount,
  transactions: Schema.Number
}).annotations({ identifier: "VacuumBlocker" })

const Replica = Schema.Struct({
  address: Schema.String,
  lagSeconds: Amount,
  unused: Schema.NullOr(Schema.String).annotations({
    description: "Why reads use the primary; null while they use the replica."
  })
}).annotations({ identifier: "Replica", description: "The replica of DATABASE_READ_URL; null without one." })

export const DatabaseView = Schema.Struct({
  ...coveredFields,
  now: Schema.Struct({ ...Facts.fields, blockers: Schema.Array(Blocker) }),
  statements: Latency.annotations({ description: "Statement latency of all processes in the range." }),
  points: Schema.Array(Facts),
  replica: Schema.NullOr(Replica)
}).annotations({ identifier: "DatabaseHealth" })

export const group = HttpApiGroup.make("metrics")
  .add(
    HttpApiEndpoint.get("series", "/metrics/series")
      .setUrlParams(SeriesQuery)
      .addSuccess(SeriesView)
      .annotateContext(about("Get job counts and latencies per bucket, including empty buckets."))
  )
  .add(
    HttpApiEndpoint.get("durations", "/metrics/durations")
      .setUrlParams(DurationsQuery)
      .addSuccess(DurationsView)
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
      .annotateContext(
        about("Get the resource usage of each process: the mean of its CPU usage, the maximum of all other values.")
      )
  )
  .add(
    HttpApiEndpoint.get("database", "/metrics/database")
      .setUrlParams(RangeQuery)
      .addSuccess(DatabaseView)
      .annotateContext(about("Get the current and past state of the database."))
  )

const defaultRange = Duration.toMillis("1 hour")

/** Minimum time between two queries, regardless of the number of open tabs. */
const healthCacheTtl = Duration.seconds(5)

/** Fills in the defaults of a range. */
export const rangeOf = ({ since, until }: Pick<RangeQuery, "since" | "until">) =>
  Effect.gen(function* () {
    const to = until ?? (yield* Clock.currentTimeMillis)
    const from = since ?? to - defaultRange
    if (from >= to) return yield* new BadRequest({ message: "since must be before until.", field: "since" })
    return { from, to }
  })

/** The range of a query and the width of its buckets. */
const gridOf = ({ bucket, ...query }: RangeQuery) =>
  Effect.gen(function* () {
    const { from, to } = yield* rangeOf(query)
    const width = bucket === undefined ? TimeGrid.defaultWidth({ from, to }) : Duration.millis(bucket)
    const grid = yield* TimeGrid.of({ from, to }, width)
    return { from: grid.from, to: grid.to, width: Duration.millis(grid.width) }
  })

type RangeAndGrid = Effect.Effect.Success<ReturnType<typeof gridOf>>

const covered = ({ from, to, width }: RangeAndGrid) => ({
  since: Instant.format(from),
  until: Instant.format(to),
  bucket: DurationText.format(width)
})

const seconds = (millis: number | undefined) => (millis === undefined ? null : millis / 1000)

export const latency = ({ count, max, p50, p95, p99, sum }: Summary) => ({
  count,
  sum: sum / 1000,
  p50: seconds(p50),
  p95: seconds(p95),
  p99: seconds(p99),
  max: seconds(max)
})

const pointOf = ({ at, processing, total, totals: _, ...counts }: SeriesPoint) => ({
  at: Instant.format(at),
  ...counts,
  processing: latency(processing),
  total: latency(total)
})

const podPointOf = ({ at, cpu, eventLoop, pool, rssBytes, statements }: PodPoint) => ({
  at: Instant.format(at),
  cpu,
  rssBytes,
  eventLoopDelay: eventLoop,
  pool,
  statements: latency(statements)
})

const factsOf = ResponseFields.of(Facts)
const replicaOf = ResponseFields.of(Replica)
const blockerOf = ResponseFields.of(Blocker)

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "metrics">,
  never,
  MinuteBuckets | ThroughputCache | PodSamples | DatabaseHealth
> = HttpApiBuilder.group(apiOf(group), "metrics", (handlers) =>
  Effect.gen(function* () {
    const buckets = yield* MinuteBuckets
    const throughput = yield* ThroughputCache
    const pods = yield* PodSamples
    const health = yield* DatabaseHealth
    const cachedHealth = yield* Effect.cachedWithTTL(health.check, healthCacheTtl)
    return handlers
      .handle("series", ({ urlParams: { kind, queue, ...query } }) =>
        Effect.gen(function* () {
          const range = yield* gridOf(query)
          const points = yield* reading(buckets.series({ ...range, kind, queue }))
          return { ...covered(range), points: points.map(pointOf) }
        })
      )
      .handle("durations", ({ urlParams: { kind, queue, ...query } }) =>
        Effect.gen(function* () {
          const { from, to } = yield* gridOf(query)
          const found = yield* reading(buckets.durations({ from, to, kind, queue }))
          const bins = found.bins().map(({ count, from, to }) => ({ from: from / 1000, to: to / 1000, count }))
          return {
            since: Instant.format(from),
            until: Instant.format(to),
            processing: latency(found.summary()),
            bins
          }
        })
      )
      .handle("queues", () =>
        Effect.map(reading(throughput.read), ({ at, queues, ...range }) => ({
          ...covered(range),
          measuredAt: Instant.format(at),
          queues
        }))
      )
      .handle("pods", ({ urlParams }) =>
        Effect.gen(function* () {
          const range = yield* gridOf(urlParams)
          const found = yield* reading(pods.series(range))
          return { ...covered(range), pods: found.map(({ pod, points }) => ({ pod, points: points.map(podPointOf) })) }
        })
      )
      .handle("database", ({ urlParams }) =>
        Effect.gen(function* () {
          const range = yield* gridOf(urlParams)
          const { blockers, ...now } = yield* cachedHealth
          const points = yield* reading(health.series(range))
          const replica = yield* health.replica
          return {
            ...covered(range),
            now: { ...factsOf(now), blockers: blockers.map(blockerOf) },
            statements: latency(yield* reading(pods.statements(range))),
            points: points.map(factsOf),
            replica: replica === undefined ? null : replicaOf(replica)
          }
        })
      )
  })
)
