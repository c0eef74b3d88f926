import { Effect, Layer } from "effect"
import { DatabaseHealth } from "../../src/history/DatabaseHealth.js"
import type { HistoryPorts } from "../../src/history/HistoryPorts.js"
import * as MinuteBucketsMemory from "../../src/history/MinuteBucketsMemory.js"
import { PodSamples } from "../../src/history/PodSamples.js"
import { QueueWaits } from "../../src/history/QueueWaits.js"
import { Histogram } from "../../src/telemetry/Histogram.js"

/** Counts in memory, and no history of processes, queues and the database. */
export const layer: Layer.Layer<HistoryPorts> = Layer.mergeAll(
  MinuteBucketsMemory.layer,
  Layer.succeed(PodSamples, {
    record: () => Effect.void,
    series: () => Effect.succeed([]),
    statements: () => Effect.succeed(new Histogram().summary()),
    purge: () => Effect.succeed(0)
  }),
  Layer.succeed(QueueWaits, {
    open: Effect.succeed([]),
    change: () => Effect.void,
    during: () => Effect.succeed([]),
    purge: () => Effect.succeed(0)
  }),
  Layer.succeed(DatabaseHealth, {
    check: Effect.dieMessage("there is no database"),
    replica: Effect.succeed(undefined),
    sessions: Effect.succeed({ limit: Number.POSITIVE_INFINITY, others: 0 }),
    sample: Effect.succeedNone,
    series: () => Effect.succeed([]),
    purge: () => Effect.succeed(0)
  })
)
