import { Clock, Context, Duration, Effect, Layer, Schema } from "effect"
import { Audit } from "../../access/Audit.js"
import { sum } from "../../core/Count.js"
import * as DurationText from "../../core/DurationText.js"
import type { ExpectedError } from "../../core/ExpectedError.js"
import { reading } from "../../database/Replica.js"
import { MinuteBuckets } from "../../history/MinuteBuckets.js"
import { Queues } from "../../queue/settings/QueueSettings.js"
import { Histogram } from "../../telemetry/Histogram.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Masked from "../access/Masked.js"
import { ClusterOverview } from "../admin/ClusterOverview.js"
import { Latency, latency } from "../admin/MetricsRoutes.js"
import * as QueueView from "../admin/QueueView.js"
import * as Snoozes from "../admin/Snoozes.js"
import * as SnoozesRoutes from "../admin/SnoozesRoutes.js"
import { ThroughputCache } from "../admin/ThroughputCache.js"
import * as Instant from "../Instant.js"
import { CountsCache } from "../jobs/CountsCache.js"
import * as GroupsRoutes from "../jobs/GroupsRoutes.js"
import { ListCache } from "../jobs/ListCache.js"
import * as ResponseFields from "../ResponseFields.js"

// The totals of a cell. Counts and histories of several cells can be added up, as in ADR 15.

const Counted = Schema.Struct({
  at: Instant.Moment,
  enqueued: Schema.Number,
  completed: Schema.Number,
  retried: Schema.Number,
  dead: Schema.Number
})

const CellPoint = Schema.Struct({
  ...Counted.fields,
  totals: Schema.Struct({
    places: Schema.Array(Schema.Int),
    counts: Schema.Array(Schema.Number),
    sum: Schema.Number,
    max: Schema.Number
  }).annotations({
    description: "Histogram of the times from due to done, in milliseconds. Equal places are added up."
  })
})

export const FleetPoint = Schema.Struct({ ...Counted.fields, total: Latency })

const historyFields = { since: Instant.Moment, bucket: Schema.String }

export const FleetHistory = Schema.Struct({ ...historyFields, points: Schema.Array(FleetPoint) })

export const CellFiguresView = Schema.Struct({
  counts: QueueView.Counts,
  throughput: Schema.NullOr(QueueView.Throughput),
  queues: Schema.Int,
  processes: Schema.Int,
  versions: Schema.Array(Schema.String).annotations({ description: "Versions of its live processes." }),
  oldestDueAt: Schema.NullOr(Schema.String).annotations({ description: "Of queues that are not paused." }),
  warnings: Schema.Array(
    Schema.Struct({
      code: Schema.String,
      message: Schema.String,
      subject: Schema.optionalWith(Schema.String, { exact: true })
    })
  ),
  notableQueues: Schema.Array(QueueView.QueueView).annotations({
    description: "Queues with due jobs that are paused, full or not served."
  }),
  groups: Schema.Array(GroupsRoutes.GroupView).annotations({ description: "Dead jobs of the last hour by cause." }),
  sampled: Schema.Boolean.annotations({
    description: "Whether `groups` leave out jobs, so that their counts are lower bounds."
  }),
  snoozes: Schema.Array(SnoozesRoutes.SnoozeView),
  history: Schema.Struct({ ...historyFields, points: Schema.Array(CellPoint) })
}).annotations({ identifier: "CellFigures" })
export type CellFiguresView = typeof CellFiguresView.Type

const lasting = Duration.toMillis("1 hour")
const width = Duration.minutes(2)

/** Maximum number of queues and of groups of dead jobs, which are for incidents. */
const maxListed = 20

const pointOf = ResponseFields.of(CellPoint)

/** Adds up the histories of several cells. Their buckets begin at the same times. */
export const merged = (histories: ReadonlyArray<CellFiguresView["history"]>): typeof FleetHistory.Type | null => {
  const [first] = histories
  if (first === undefined) return null
  const byTime = new Map<string, Array<typeof CellPoint.Type>>()
  for (const point of histories.flatMap(({ points }) => points)) {
    const same = byTime.get(point.at)
    if (same === undefined) byTime.set(point.at, [point])
    else same.push(point)
  }
  const of = (points: ReadonlyArray<typeof CellPoint.Type>, field: "enqueued" | "completed" | "retried" | "dead") =>
    points.reduce((all, point) => all + point[field], 0)
  return {
    since: first.since,
    bucket: first.bucket,
    points: [...byTime.entries()].sort().map(([at, points]) => ({
      at,
      enqueued: of(points, "enqueued"),
      completed: of(points, "completed"),
      retried: of(points, "retried"),
      dead: of(points, "dead"),
      total: latency(Histogram.of(...points.map(({ totals }) => totals)).summary())
    }))
  }
}

const isNotable = (unserved: ReadonlySet<string>) => (queue: QueueView.QueueView) => {
  const { counts, limits, name, paused } = queue
  const waiting = sum([counts.pending, counts.scheduled, counts.retrying]).value
  return (
    unserved.has(name) ||
    (paused && counts.pending.value > 0) ||
    (limits.depthCap !== null && waiting >= limits.depthCap)
  )
}

/** The totals of this cell. */
export class CellFigures extends Context.Tag("nightshift/http/CellFigures")<
  CellFigures,
  { readonly read: Effect.Effect<CellFiguresView, ExpectedError> }
>() {
  static readonly layer: Layer.Layer<
    CellFigures,
    never,
    CountsCache | ThroughputCache | ListCache | ClusterOverview | Queues | MinuteBuckets | Audit | AccessConfig
  > = Layer.effect(
    CellFigures,
    Effect.gen(function* () {
      const counts = yield* CountsCache
      const throughput = yield* ThroughputCache
      const lists = yield* ListCache
      const cluster = yield* ClusterOverview
      const settings = yield* Queues
      const buckets = yield* MinuteBuckets
      const masked = yield* Masked.make
      const snoozes = Snoozes.make(yield* Audit)
      return {
        read: Effect.gen(function* () {
          const counted = yield* counts.read
          const lately = yield* throughput.sums
          const queues = QueueView.ofAll(counted.queues, yield* settings.all, lately?.of)
          const { pods, warnings } = yield* cluster.read
          const now = yield* Clock.currentTimeMillis
          const { groups, sampled } = yield* reading(lists.deadGroups())
          const points = yield* Effect.catchTag(
            reading(buckets.series({ from: now - lasting + 1, to: now + 1, width })),
            "TooMuchToMerge",
            () => Effect.succeed([])
          )
          const unserved = new Set(
            warnings.flatMap(({ code, subject }) =>
              code === "unserved_queue" && subject !== undefined ? [subject] : []
            )
          )
          const oldest = queues.flatMap(({ oldestDueAt, paused }) =>
            paused || oldestDueAt === null ? [] : [oldestDueAt]
          )
          const measured = queues.flatMap(({ throughput }) => (throughput === null ? [] : [throughput]))
          return {
            counts: QueueView.countsOf((state) => sum(queues.map(({ counts }) => counts[state]))),
            throughput:
              lately === undefined
                ? null
                : {
                    seconds: measured[0]?.seconds ?? lasting / 1000,
                    completed: measured.reduce((all, { completed }) => all + completed, 0),
                    dead: measured.reduce((all, { dead }) => all + dead, 0)
                  },
            queues: queues.length,
            processes: pods.length,
            versions: [...new Set(pods.map(({ version }) => version))].sort(),
            oldestDueAt: oldest.sort()[0] ?? null,
            warnings: warnings.slice(0, maxListed),
            notableQueues: queues.filter(isNotable(unserved)).slice(0, maxListed),
            groups: groups
              .filter(({ lastAt }) => now - lastAt < lasting)
              .slice(0, maxListed)
              .map(GroupsRoutes.viewOf())
              .map((group) => masked.shared(group, GroupsRoutes.hidden)),
            sampled,
            snoozes: (yield* snoozes).map(SnoozesRoutes.viewOf),
            history: {
              since: Instant.format(points[0]?.at ?? now),
              bucket: DurationText.format(width),
              points: points.map((point) => pointOf(point))
            }
          }
        })
      }
    })
  )
}
