import { Effect, Layer } from "effect"
import { Database } from "../database/Database.js"
import { DatabaseTime } from "../database/DatabaseClock.js"
import * as Package from "../database/Package.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"

const pool = MetricSpec.gauge("database_pool", "Connections of this process by what they do.", ["state"])
const clockOffset = MetricSpec.gauge("clock_offset_seconds", "How far the database's clock is ahead of this machine's.")
const memory = MetricSpec.gauge("process_resident_memory_bytes", "Memory that this process holds.")
const buildInfo = MetricSpec.gauge("build_info", "Always 1; says which release runs.", ["version"])

/** Facts that are looked up when somebody reads the metrics. */
export const layer: Layer.Layer<never, never, Metrics> = Layer.effectDiscard(
  Effect.gen(function* () {
    const metrics = yield* Metrics
    metrics.series(buildInfo, { version: Package.version.text }).set(1)
    const resident = metrics.series(memory, {})
    yield* metrics.onRead(Effect.sync(() => resident.set(process.memoryUsage.rss())))
  })
)

export const layerDatabase: Layer.Layer<never, never, Metrics | Database | DatabaseTime> = Layer.effectDiscard(
  Effect.gen(function* () {
    const metrics = yield* Metrics
    const database = yield* Database
    const time = yield* DatabaseTime
    const offset = metrics.series(clockOffset, {})
    yield* metrics.onRead(
      Effect.gen(function* () {
        const use = yield* database.poolUse
        for (const state of ["busy", "idle", "waiting"] as const) metrics.series(pool, { state }).set(use[state])
        offset.set((yield* time.offsetMillis) / 1000)
      })
    )
  })
)
