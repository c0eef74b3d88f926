import { Duration, Effect, Exit, Layer, Schedule, type Scope } from "effect"
import { Boot } from "../core/Boot.js"
import type { Loop, Report, Step } from "../core/Loop.js"
import { after, backingOff } from "../core/LoopSchedule.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { runLoop } from "../telemetry/LoopRunner.js"
import type { Metrics } from "../telemetry/Metrics.js"
import { Tally } from "../telemetry/Tally.js"
import { DatabaseHealth } from "./DatabaseHealth.js"
import type { HistoryPorts } from "./HistoryPorts.js"
import { MetricsConfig } from "./MetricsConfig.js"
import { MinuteBuckets } from "./MinuteBuckets.js"
import { PodSamples } from "./PodSamples.js"
import { QueueWaits } from "./QueueWaits.js"

/** Delay after a failed write. Counts accumulate in memory meanwhile, so nothing is lost. */
const afterFailure = Duration.seconds(15)
/** Timeout of the last flush on shutdown. */
const lastFlushTimeout = Duration.seconds(5)

/** Counts job events in this process. `flush` writes the counts per minute; the last flush follows when the Scope closes. */
export const makeCounts: Effect.Effect<
  { readonly tally: typeof Tally.Service; readonly flush: Effect.Effect<Report, DatabaseError> },
  never,
  Boot | MinuteBuckets | Metrics | Scope.Scope
> = Effect.gen(function* () {
  const buckets = yield* MinuteBuckets
  const boot = yield* Boot
  const tally = yield* Tally.make
  let revision = 0

  // If the write is interrupted or fails, the counts are restored. Writing the same counts twice is idempotent.
  const flush = Effect.suspend(() => {
    const counts = tally.take()
    if (counts.length === 0) return Effect.succeed({})
    revision += 1
    return buckets.record(boot.id, revision, counts).pipe(
      Effect.onExit((exit) =>
        Exit.isFailure(exit) ? Effect.sync(() => tally.returnUndelivered(counts)) : Effect.void
      ),
      Effect.as({})
    )
  })

  yield* Effect.addFinalizer(() =>
    flush.pipe(
      Effect.interruptible,
      Effect.timeout(lastFlushTimeout),
      Effect.catchAll((error) =>
        Effect.logWarning("could not write the last counts of this process; charts will not include them", error)
      )
    )
  )
  return { tally, flush }
})

/**
 * Counts job events and flushes the counts. It waits for a count rather than for a timer, so an idle process writes
 * nothing. All layers that count close before this one, so the last flush is complete.
 */
export const make: Effect.Effect<
  typeof Tally.Service,
  never,
  Boot | MinuteBuckets | Metrics | MetricsConfig | Scope.Scope
> = Effect.gen(function* () {
  const config = yield* MetricsConfig
  // Before the loop starts, so that the last flush runs after the loop has stopped.
  const { flush, tally } = yield* makeCounts
  const loop: Loop = {
    name: "metrics",
    about: "when there are new counts",
    schedule: after(tally.changed, backingOff(Schedule.spaced(config.flush), Schedule.spaced(afterFailure))),
    runAtStart: false,
    steps: [{ name: "flush", timeout: "10 seconds", run: flush }]
  }
  yield* runLoop(loop)
  return tally
})

export const layer: Layer.Layer<Tally, never, MinuteBuckets | Metrics | MetricsConfig> = Layer.scoped(Tally, make).pipe(
  Layer.provide(Boot.layer)
)

/** Deletes counts and samples past their retention. */
export const purge: Effect.Effect<Step, never, HistoryPorts | MetricsConfig> = Effect.gen(function* () {
  const buckets = yield* MinuteBuckets
  const waits = yield* QueueWaits
  const pods = yield* PodSamples
  const health = yield* DatabaseHealth
  const { retention } = yield* MetricsConfig
  const purge = Effect.all({
    buckets: buckets.purge(retention),
    waits: waits.purge(retention),
    podSamples: pods.purge(retention),
    databaseSamples: health.purge(retention)
  })
  return { name: "metrics", run: purge }
})
