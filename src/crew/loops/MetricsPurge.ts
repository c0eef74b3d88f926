import { Effect } from "effect"
import { DatabaseHealth } from "../../measures/DatabaseHealth.js"
import { MinuteBuckets } from "../../measures/MinuteBuckets.js"
import { PodSamples } from "../../measures/PodSamples.js"
import { MetricsConfig } from "../MetricsConfig.js"
import type { CleanupStep } from "./Cleanup.js"

/**
 * Forgets counts and samples past their retention. It asserts no term: they are as old whoever leads, and what two delete
 * at once is deleted once.
 */
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
