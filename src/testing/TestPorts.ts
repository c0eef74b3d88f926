import { Effect, Layer } from "effect"
import * as ClusterMemory from "../cluster/ClusterMemory.js"
import type { Leadership } from "../cluster/Leadership.js"
import type { Pods } from "../cluster/Pods.js"
import type { Shares } from "../cluster/Shares.js"
import type { Codec } from "../codec/Codec.js"
import { Boot } from "../core/Boot.js"
import type { Hints } from "../database/Hints.js"
import * as MetricsFlush from "../history/MetricsFlush.js"
import type { MinuteBuckets } from "../history/MinuteBuckets.js"
import * as MinuteBucketsMemory from "../history/MinuteBucketsMemory.js"
import type { Operations } from "../queue/admin/Operations.js"
import type { Batches } from "../queue/batch/Batches.js"
import type { Endpoints } from "../queue/endpoints/Endpoints.js"
import type { Erasure } from "../queue/erasure/Erasure.js"
import type { Events } from "../queue/events/Events.js"
import { DirectHandoff } from "../queue/handoff/DirectHandoff.js"
import type { JobAdmin } from "../queue/JobAdmin.js"
import type { JobsMemory } from "../queue/JobsMemory.js"
import type { Kinds } from "../queue/Kinds.js"
import type { JobLogs } from "../queue/logs/JobLogs.js"
import type { Queue } from "../queue/Queue.js"
import * as QueueMemory from "../queue/QueueMemory.js"
import type { JobOverview } from "../queue/search/JobOverview.js"
import type { JobSearch } from "../queue/search/JobSearch.js"
import type { Queues } from "../queue/settings/QueueSettings.js"
import type { Routes } from "../queue/settings/Routes.js"
import { Transactions } from "../queue/Transactions.js"
import * as Wakeups from "../queue/Wakeups.js"
import type { JobDiagnosis } from "../queue/why/JobDiagnosis.js"
import type { Workflows } from "../queue/workflow/Workflows.js"
import type { RateLimits } from "../rate-limits/RateLimits.js"
import * as RateLimitsMemory from "../rate-limits/RateLimitsMemory.js"
import type { Schedules } from "../schedule/Schedules.js"
import * as SchedulesMemory from "../schedule/SchedulesMemory.js"
import * as Seal from "../seal/Seal.js"
import { Metrics } from "../telemetry/Metrics.js"
import { Tally } from "../telemetry/Tally.js"
import type { Storage } from "../uploads/Storage.js"
import * as StorageMemory from "../uploads/StorageMemory.js"
import { UploadsConfig } from "../uploads/UploadsConfig.js"

/** The services of a test, on tables in memory. */
export type TestPorts =
  | Queue
  | Queues
  | JobAdmin
  | JobSearch
  | JobDiagnosis
  | JobLogs
  | Operations
  | Batches
  | Events
  | Endpoints
  | Erasure
  | Workflows
  | Kinds
  | Routes
  | RateLimits
  | Transactions
  | Wakeups.Wakeups
  | DirectHandoff
  | Hints
  | Pods
  | Shares
  | Leadership
  | Schedules
  | MinuteBuckets
  | Storage
  | Metrics

/** The counts of a test: of the jobs that it enqueues and of those that its pods run. `onMade` gets what writes them. */
export const countingIn = (
  onMade: (flush: Effect.Effect<unknown>) => void
): Layer.Layer<Tally, never, MinuteBuckets | Metrics> =>
  Layer.scoped(
    Tally,
    Effect.map(MetricsFlush.makeCounts, ({ flush, tally }) => {
      onMade(Effect.orDie(flush))
      return tally
    })
  ).pipe(Layer.provide(Boot.layer))

const queue = Layer.provideMerge(QueueMemory.layer, Layer.merge(Wakeups.layer, DirectHandoff.layer))

/** The ports on new tables, with the tally that `counting` provides. */
export const portsOf = (
  counting: ReturnType<typeof countingIn>,
  codec?: Codec
): Layer.Layer<TestPorts | Tally | JobOverview | JobsMemory | ClusterMemory.LockTable> =>
  Layer.mergeAll(SchedulesMemory.layer, ClusterMemory.layer, RateLimitsMemory.layer).pipe(
    Layer.provideMerge(codec === undefined ? queue : Layer.map(queue, Seal.over(codec))),
    Layer.provideMerge(Transactions.layerMemory),
    Layer.provideMerge(counting),
    Layer.provideMerge(MinuteBucketsMemory.layer),
    Layer.provideMerge(Layer.provide(StorageMemory.layer, UploadsConfig.layerDefault)),
    Layer.provideMerge(Metrics.layer)
  )
