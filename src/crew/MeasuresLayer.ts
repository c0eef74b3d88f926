import { Effect, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { Database } from "../database/Database.js"
import type { DatabaseHealth } from "../measures/DatabaseHealth.js"
import type { Measures } from "../measures/Measures.js"
import * as MeasuresPg from "../measures/MeasuresPg.js"
import type { PodSamples } from "../measures/PodSamples.js"
import { EventLoop } from "../telemetry/EventLoop.js"
import type { Metrics } from "../telemetry/Metrics.js"
import type { Tally } from "../telemetry/Tally.js"
import { runLoop } from "./LoopRunner.js"
import * as MetricsFlush from "./loops/MetricsFlush.js"
import * as Sampler from "./loops/Sampler.js"
import { MetricsConfig } from "./MetricsConfig.js"
import { Boot } from "./Pod.js"

/** Counts job events. Must be built before the layers that enqueue or finalize jobs, so that it closes after them. */
export const counting: Layer.Layer<Tally | Measures, ConfigError, Database | Metrics> = MetricsFlush.layer.pipe(
  Layer.provideMerge(MeasuresPg.layer),
  Layer.provide(MetricsConfig.layer)
)

/** Records this pod's resource usage and the database's health. */
export const sampling: Layer.Layer<never, ConfigError, PodSamples | DatabaseHealth | Database | Metrics> =
  Layer.scopedDiscard(Effect.flatMap(Sampler.make, runLoop)).pipe(
    Layer.provide([EventLoop.layer, Boot.layer, MetricsConfig.layer])
  )
