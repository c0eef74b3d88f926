import { Effect } from "effect"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { mostCounted, Storage } from "../../uploads/Storage.js"

const uploads = MetricSpec.gauge("uploads", `Files by state; counting stops at ${mostCounted} per state.`, ["state"])

const states = ["waiting", "fetched", "acked", "expired"] as const

/** Counts files when the metrics are scraped. The rate and duration of the count are limited. */
export const register: Effect.Effect<void, never, Storage | Metrics> = Effect.gen(function* () {
  const storage = yield* Storage
  const metrics = yield* Metrics
  const look = storage.counts.pipe(
    Effect.timeout("2 seconds"),
    Effect.tap((counts) =>
      Effect.sync(() => {
        for (const state of states) metrics.series(uploads, { state }).set(counts[state])
      })
    ),
    // Keeps the last count. Database outages are reported elsewhere.
    Effect.catchAll((error) => Effect.logDebug("could not count files", error)),
    Effect.asVoid
  )
  yield* metrics.onRead(yield* Effect.cachedWithTTL(look, "15 seconds"))
})
