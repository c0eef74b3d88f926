import { Effect } from "effect"
import { DatabaseHealth } from "../../measures/DatabaseHealth.js"
import { MinuteBuckets } from "../../measures/MinuteBuckets.js"
import { PodSamples } from "../../measures/PodSamples.js"
import { MetricsConfig } from "../MetricsConfig.js"
import type { CleanupStep } from "./Cleanup.js"

/** Deletes counts and samples past their retention. Asserts no term, because concurrent deletes are harmless. */
export const make: Effect.Effect<CleanupStep, never, MinuteBuckets | PodSamples | DatabaseHealth | MetricsConfig> =
  Effect.gen(function* () {
    const buckets = yield* MinuteBuckets
    const pods = yield* PodSamples
    const health = yield* DatabaseHealth
    const { retention } = yield* MetricsConfig
    const purge = Effect.all({
      buckets: buckets.purge(retention),
      podSamples: pods.purge(retention),
      databaseSamples: health.purge(retention)
    })
    return { name: "metrics", run: () => purge }
  })
