import { Effect, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { Database } from "../database/Database.js"
import type { DatabaseHealth } from "../measures/DatabaseHealth.js"
import * as DatabaseHealthPg from "../measures/DatabaseHealthPg.js"
import type { MinuteBuckets } from "../measures/MinuteBuckets.js"
import * as MinuteBucketsPg from "../measures/MinuteBucketsPg.js"
import type { PodSamples } from "../measures/PodSamples.js"
import * as PodSamplesPg from "../measures/PodSamplesPg.js"
import { EventLoop } from "../telemetry/EventLoop.js"
import type { Metrics } from "../telemetry/Metrics.js"
import type { Tally } from "../telemetry/Tally.js"
import { keep } from "./Keep.js"
import { MetricsConfig } from "./MetricsConfig.js"
import * as MetricsFlush from "./MetricsFlush.js"
import { Pod } from "./Pod.js"
import * as Sampler from "./Sampler.js"

/** What is kept of the past. */
export type Measures = MinuteBuckets | PodSamples | DatabaseHealth

const ports: Layer.Layer<Measures, never, Database> = Layer.mergeAll(
  MinuteBucketsPg.layer,
  PodSamplesPg.layer,
  DatabaseHealthPg.layer
)

/** Counts what happens to jobs. It stands below whoever stores or ends some, so that it closes after them. */
export const counting: Layer.Layer<Tally | Measures, ConfigError, Database | Metrics> = MetricsFlush.layer.pipe(
  Layer.provideMerge(ports),
  Layer.provide(MetricsConfig.layer)
)

/** Keeps what this pod uses and how the database is. */
export const sampling: Layer.Layer<never, ConfigError, PodSamples | DatabaseHealth | Database | Metrics> =
  Layer.scopedDiscard(Effect.flatMap(Sampler.make, keep)).pipe(
    Layer.provide([EventLoop.layer, Pod.layer, MetricsConfig.layer])
  )
