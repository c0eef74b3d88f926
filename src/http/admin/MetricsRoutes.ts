import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Duration, Effect, type Layer } from "effect"
import { type DatabaseFacts, DatabaseHealth, type VacuumBlocker } from "../../measures/DatabaseHealth.js"
import { MinuteBuckets, type SeriesPoint } from "../../measures/MinuteBuckets.js"
import { type PodPoint, PodSamples } from "../../measures/PodSamples.js"
import * as TimeGrid from "../../measures/TimeGrid.js"
import type { Summary } from "../../telemetry/Histogram.js"
import { Api } from "../Api.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { BadRequest } from "../RequestErrors.js"
import type { RangeQuery } from "./MetricsContract.js"
import { ThroughputCache } from "./ThroughputCache.js"

const defaultRange = Duration.toMillis("1 hour")

/** Minimum time between two queries, regardless of the number of open tabs. */
const healthCacheTtl = Duration.seconds(5)

/** Fills in the defaults of a range query. */
const rangeOf = ({ bucket, since, until }: RangeQuery) =>
  Effect.gen(function* () {
    const to = until ?? (yield* Clock.currentTimeMillis)
    const from = since ?? to - defaultRange
    if (from >= to) return yield* new BadRequest({ message: "since must be before until.", field: "since" })
    const width = bucket === undefined ? TimeGrid.defaultWidth({ from, to }) : Duration.seconds(bucket)
    const grid = yield* TimeGrid.of({ from, to }, width)
    return { from: grid.from, to: grid.to, width: Duration.millis(grid.width) }
  })

type RangeAndGrid = Effect.Effect.Success<ReturnType<typeof rangeOf>>

const covered = ({ from, to, width }: RangeAndGrid) => ({
  since: Instant.format(from),
  until: Instant.format(to),
  bucketSeconds: Duration.toSeconds(width)
})

const seconds = (millis: number | undefined) => (millis === undefined ? null : millis / 1000)

const latency = ({ count, max, p50, p95, p99, sum }: Summary) => ({
  count,
  sum: sum / 1000,
  p50: seconds(p50),
  p95: seconds(p95),
  p99: seconds(p99),
  max: seconds(max)
})

const pointOf = ({ at, processing, total, ...counts }: SeriesPoint) => ({
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

const factsOf = ({ at, ...facts }: DatabaseFacts & { readonly at: number }) => ({ at: Instant.format(at), ...facts })

const blockerOf = ({ application, name, seconds, state, transactions, user, what }: VacuumBlocker) => ({
  what,
  name,
  user: user ?? null,
  application: application ?? null,
  state: state ?? null,
  seconds: seconds ?? null,
  transactions
})

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "metrics">,
  never,
  MinuteBuckets | ThroughputCache | PodSamples | DatabaseHealth
> = HttpApiBuilder.group(Api, "metrics", (handlers) =>
  Effect.gen(function* () {
    const buckets = yield* MinuteBuckets
    const throughput = yield* ThroughputCache
    const pods = yield* PodSamples
    const health = yield* DatabaseHealth
    const cachedHealth = yield* Effect.cachedWithTTL(health.check, healthCacheTtl)
    return handlers
      .handle("series", ({ urlParams: { kind, queue, ...query } }) =>
        Effect.gen(function* () {
          const range = yield* rangeOf(query)
          const points = yield* buckets.series({ ...range, kind, queue })
          return { ...covered(range), points: points.map(pointOf) }
        }).pipe(Problem.catchErrors)
      )
      .handle("durations", ({ urlParams: { kind, queue, ...query } }) =>
        Effect.gen(function* () {
          const { from, to } = yield* rangeOf(query)
          const found = yield* buckets.durations({ from, to, kind, queue })
          const bins = found.bins().map(({ count, from, to }) => ({ from: from / 1000, to: to / 1000, count }))
          return {
            since: Instant.format(from),
            until: Instant.format(to),
            processing: latency(found.summary()),
            bins
          }
        }).pipe(Problem.catchErrors)
      )
      .handle("queues", () =>
        Effect.map(throughput.read, ({ at, queues, ...range }) => ({
          ...covered(range),
          measuredAt: Instant.format(at),
          queues
        })).pipe(Problem.catchErrors)
      )
      .handle("pods", ({ urlParams }) =>
        Effect.gen(function* () {
          const range = yield* rangeOf(urlParams)
          const found = yield* pods.series(range)
          return { ...covered(range), pods: found.map(({ pod, points }) => ({ pod, points: points.map(podPointOf) })) }
        }).pipe(Problem.catchErrors)
      )
      .handle("database", ({ urlParams }) =>
        Effect.gen(function* () {
          const range = yield* rangeOf(urlParams)
          const { blockers, ...now } = yield* cachedHealth
          const points = yield* health.series(range)
          return {
            ...covered(range),
            now: { ...factsOf(now), blockers: blockers.map(blockerOf) },
            statements: latency(yield* pods.statements(range)),
            points: points.map(factsOf)
          }
        }).pipe(Problem.catchErrors)
      )
  })
)
