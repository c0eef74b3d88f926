import { Context, Layer } from "effect"
import * as ClusterMemory from "../../cluster/ClusterMemory.js"
import { Leadership } from "../../cluster/Leadership.js"
import { Pods } from "../../cluster/Pods.js"
import { Shares } from "../../cluster/Shares.js"
import { inOrder } from "../../core/LayersInOrder.js"
import { Hints } from "../../database/Hints.js"
import { MetricsConfig } from "../../history/MetricsConfig.js"
import * as MetricsFlush from "../../history/MetricsFlush.js"
import { MinuteBuckets } from "../../history/MinuteBuckets.js"
import * as MinuteBucketsMemory from "../../history/MinuteBucketsMemory.js"
import { Operations } from "../../queue/admin/Operations.js"
import { Batches } from "../../queue/batch/Batches.js"
import { Erasure } from "../../queue/erasure/Erasure.js"
import { Events } from "../../queue/events/Events.js"
import { DirectHandoff } from "../../queue/handoff/DirectHandoff.js"
import { JobAdmin } from "../../queue/JobAdmin.js"
import type { JobsMemory } from "../../queue/JobsMemory.js"
import { Kinds } from "../../queue/Kinds.js"
import { JobLogs } from "../../queue/logs/JobLogs.js"
import { Queue } from "../../queue/Queue.js"
import * as QueueMemory from "../../queue/QueueMemory.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { Queues } from "../../queue/settings/QueueSettings.js"
import { Routes } from "../../queue/settings/Routes.js"
import { Transactions } from "../../queue/Transactions.js"
import * as Wakeups from "../../queue/Wakeups.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import { RateLimits } from "../../rate-limits/RateLimits.js"
import * as RateLimitsMemory from "../../rate-limits/RateLimitsMemory.js"
import { Schedules } from "../../schedule/Schedules.js"
import * as SchedulesMemory from "../../schedule/SchedulesMemory.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { Storage } from "../../uploads/Storage.js"
import * as StorageMemory from "../../uploads/StorageMemory.js"
import { UploadsConfig } from "../../uploads/UploadsConfig.js"
import type { FaultInjector } from "./FaultInjector.js"
import * as PodSettings from "./PodSettings.js"

type QueuePorts =
  | Queue
  | Queues
  | JobAdmin
  | JobSearch
  | JobLogs
  | Operations
  | Batches
  | Events
  | Erasure
  | Workflows
  | Kinds
  | Routes
  | Wakeups.Wakeups
  | DirectHandoff
type ClusterPorts = Hints | Pods | Shares | Leadership | Schedules | MinuteBuckets | Storage

/** Services shared by all processes of a cluster. */
export type Shared = QueuePorts | ClusterPorts

/** Services of one process. */
export type Ports = Shared | Transactions | RateLimits

/** Services shared by all processes, and the tables that only the simulation sees. */
export type Stored = Shared | JobsMemory | ClusterMemory.LockTable

/** The in-memory tables of one database, to be shared by many processes. */
export const layer: Layer.Layer<Stored> = inOrder(
  Metrics.layer,
  UploadsConfig.layerDefault,
  StorageMemory.layer,
  MinuteBucketsMemory.layer,
  Layer.succeed(MetricsConfig, PodSettings.metrics),
  MetricsFlush.layer,
  Wakeups.layer,
  DirectHandoff.layer,
  QueueMemory.layer,
  ClusterMemory.layer,
  SchedulesMemory.layer
)

const overHints = (
  wire: FaultInjector,
  tables: Context.Context<Shared>
): Context.Context<Hints | Wakeups.Wakeups | Schedules> => {
  const hints = Context.get(tables, Hints)
  const wakeups = Context.get(tables, Wakeups.Wakeups)
  const schedules = Context.get(tables, Schedules)
  return Context.empty().pipe(
    Context.add(Hints, {
      ...wire.to(Hints, hints, ["subscribe", "connected"]),
      subscribe: (topic, listener) => hints.subscribe(topic, wire.receives(`signal ${topic}`, listener))
    }),
    Context.add(Wakeups.Wakeups, {
      ...wakeups,
      onWake: (queue, listener) => wakeups.onWake(queue, wire.receives(`work in ${queue}`, listener))
    }),
    Context.add(Schedules, {
      ...wire.to(Schedules, schedules, ["onChange"]),
      onChange: (listener) => schedules.onChange(wire.receives("change of a schedule", listener))
    })
  )
}

/** Writes of streams are operations too. Readers of streams and answers wait in the process. */
const workflowsOver = (wire: FaultInjector, workflows: typeof Workflows.Service): typeof Workflows.Service => ({
  ...wire.to(Workflows, workflows, ["awaitAnswer"]),
  streams: wire.to({ key: "Streams" }, workflows.streams, ["next"])
})

/**
 * The services of one process behind its connection. Rate limit buckets are shared; tokens reserved ahead belong to the
 * process. Its direct handoff is not connected to the queue (see ProcessQueue).
 */
export const over = (
  wire: FaultInjector,
  tables: Context.Context<Shared>,
  buckets: RateLimitsMemory.Table
): Context.Context<Ports> => {
  const far = <I extends Shared, S extends object>(tag: Context.Tag<I, S>, local: ReadonlyArray<keyof S> = []) =>
    Context.make(tag, wire.to(tag, Context.get(tables, tag), local))
  return Context.mergeAll(
    far(Queue),
    Context.make(DirectHandoff, DirectHandoff.make()),
    far(Queues, ["known"]),
    far(JobAdmin),
    far(JobSearch, ["await"]),
    far(JobLogs),
    far(Operations),
    far(Batches),
    far(Events),
    far(Erasure),
    Context.make(Workflows, workflowsOver(wire, Context.get(tables, Workflows))),
    far(Kinds),
    far(Routes),
    far(Pods, ["holdLock"]),
    far(Shares),
    far(Leadership),
    far(MinuteBuckets),
    far(Storage),
    overHints(wire, tables),
    Context.make(Transactions, wire.transactions),
    Context.make(RateLimits, wire.to(RateLimits, RateLimitsMemory.make(buckets, wire.who)))
  )
}
