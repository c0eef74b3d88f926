import { Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { Database } from "../database/Database.js"
import type { Metrics } from "../telemetry/Metrics.js"
import type { Tally } from "../telemetry/Tally.js"
import * as DatabaseHealthPg from "./DatabaseHealthPg.js"
import type { HistoryPorts } from "./HistoryPorts.js"
import { MetricsConfig } from "./MetricsConfig.js"
import * as MetricsFlush from "./MetricsFlush.js"
import * as MinuteBucketsPg from "./MinuteBucketsPg.js"
import * as PodSamplesPg from "./PodSamplesPg.js"
import * as QueueWaitsPg from "./QueueWaitsPg.js"

export const layer: Layer.Layer<HistoryPorts, never, Database> = Layer.mergeAll(
  MinuteBucketsPg.layer,
  QueueWaitsPg.layer,
  PodSamplesPg.layer,
  DatabaseHealthPg.layer
)

/** Counts job events. Must be built before the layers that enqueue or finalize jobs, so that it closes after them. */
export const counting: Layer.Layer<Tally | HistoryPorts, ConfigError, Database | Metrics> = MetricsFlush.layer.pipe(
  Layer.provideMerge(layer),
  Layer.provide(MetricsConfig.layer)
)
