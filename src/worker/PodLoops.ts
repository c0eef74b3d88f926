import { Effect, Layer } from "effect"
import { AccessRetentionConfig } from "../access/AccessCleanup.js"
import { MetricsConfig } from "../history/MetricsConfig.js"
import * as MetricsFlush from "../history/MetricsFlush.js"
import * as Sampler from "../history/Sampler.js"
import * as OperationRunner from "../queue/admin/OperationRunner.js"
import * as BatchCloser from "../queue/batch/BatchCloser.js"
import * as SubscriptionFiller from "../queue/events/SubscriptionFiller.js"
import { SchedulerConfig } from "../schedule/SchedulerConfig.js"
import * as SchedulerLoop from "../schedule/SchedulerLoop.js"
import * as Sweeper from "../uploads/Sweeper.js"
import * as Cleanup from "./loops/Cleanup.js"
import * as WaitLog from "./loops/WaitLog.js"
import { WorkerConfig } from "./WorkerConfig.js"

/** The loops of features that also run on tables in memory. */
const onAnyStore = [
  Sweeper.make,
  Effect.flatMap(WorkerConfig, ({ poll }) => OperationRunner.make(poll)),
  SchedulerLoop.make,
  BatchCloser.make,
  SubscriptionFiller.make
] as const

/** The loops that the features give to a pod on tables in memory. */
export const inMemory = Effect.all([...onAnyStore, Cleanup.make(Effect.succeed([]))])

/** The loops that the features give to a pod on PostgreSQL. */
export const onDatabase = [
  ...onAnyStore,
  Cleanup.make(Effect.all([MetricsFlush.purge, Cleanup.operations, Cleanup.undo])),
  Sampler.make,
  WaitLog.make
] as const

/** The settings of these loops. */
export const configs = Layer.mergeAll(
  SchedulerConfig.layer,
  Sweeper.SweeperConfig.layer,
  MetricsConfig.layer,
  AccessRetentionConfig.layer
)
