import { Effect } from "effect"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { mostCounted, Storage } from "../../uploads/Storage.js"

const uploads = MetricSpec.gauge("uploads", `Files by state, each counted up to ${mostCounted}.`, ["state"])

const states = ["waiting", "fetched", "acked", "expired"] as const

/** Counts files for whoever reads the metrics, however often they do: seldom, and not for long. */
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
    // The last count stands: that the database is away is told elsewhere.
    Effect.catchAll((error) => Effect.logDebug("files could not be counted", error)),
    Effect.asVoid
  )
  yield* metrics.onRead(yield* Effect.cachedWithTTL(look, "15 seconds"))
})
