import { Context, Effect, Layer, Schedule, type Scope } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as DurationText from "../core/DurationText.js"
import type { Loop, Report } from "../core/Loop.js"
import * as Setting from "../core/Setting.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"
import { maxCounted, Storage } from "./Storage.js"

export const settings = {
  interval: Setting.positiveDuration(
    {
      key: "UPLOADS_SWEEP_INTERVAL",
      about: "Interval of the sweeper. Values of 0 or less use the default."
    },
    "5m"
  ),
  ackRetention: Setting.retention(
    {
      key: "UPLOADS_ACK_RETENTION",
      about: "Retention of acknowledged files. 0 uses the default; a negative value deletes them at the next run."
    },
    "1h"
  )
}

/** Settings of the sweeper. */
export class SweeperConfig extends Context.Tag("nightshift/uploads/SweeperConfig")<
  SweeperConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<SweeperConfig, ConfigError> = Layer.effect(SweeperConfig, Setting.group(settings))
}

const sweptTotal = MetricSpec.counter(
  "pending_uploads_swept_total",
  "Deleted files by reason. Many expired and few acked means that a workspace does not fetch its files.",
  ["outcome"]
)

const uploads = MetricSpec.gauge("uploads", `Files by state; counting stops at ${maxCounted} per state.`, ["state"])

const states = ["waiting", "fetched", "acked", "expired"] as const

/** Counts files when the metrics are scraped. The rate and duration of the count are limited. */
const watchUploads: Effect.Effect<void, never, Storage | Metrics | Scope.Scope> = Effect.gen(function* () {
  const storage = yield* Storage
  const metrics = yield* Metrics
  const fileCounts = storage.counts.pipe(
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
  yield* metrics.onRead(yield* Effect.cachedWithTTL(fileCounts, "15 seconds"))
})

const describe = ({ acked, expired, leftovers, total }: Report) =>
  `deleted acked=${acked} expired=${expired} total=${total}${leftovers === 0 ? "" : ` leftovers=${leftovers}`}`

/** Deletes files that were acknowledged or have expired, and the remains of incomplete uploads. Exports how many files there are. */
export const make: Effect.Effect<Loop, never, Storage | SweeperConfig | Metrics | Scope.Scope> = Effect.gen(
  function* () {
    const storage = yield* Storage
    const { ackRetention, interval } = yield* SweeperConfig
    const metrics = yield* Metrics
    yield* watchUploads
    const counted = (outcome: "acked" | "expired" | "error") => metrics.series(sweptTotal, { outcome })
    // Exported as 0 from the start, because a missing series looks the same as no data.
    const series = { acked: counted("acked"), expired: counted("expired"), error: counted("error") }
    const sweep = Effect.map(storage.sweep(ackRetention), (swept) => {
      series.acked.add(swept.acked)
      series.expired.add(swept.expired)
      return { ...swept }
    })
    return {
      name: "sweeper",
      about: `every ${DurationText.format(interval)}, deleting expired files and files acknowledged for ${DurationText.format(ackRetention)}`,
      schedule: Schedule.spaced(interval),
      runAtStart: true,
      steps: [
        {
          name: "sweep",
          timeout: "30 seconds",
          run: sweep,
          describe,
          failed: Effect.sync(() => series.error.add(1))
        }
      ]
    }
  }
)

export const layerWithoutDatabase: Layer.Layer<never> = Layer.effectDiscard(
  Effect.logInfo("sweeper is off: without a database there are no uploads")
)
