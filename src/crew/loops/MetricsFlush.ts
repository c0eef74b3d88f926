import { Duration, Effect, Exit, Layer, Schedule } from "effect"
import type { Loop } from "../../core/Loop.js"
import { after, backingOff } from "../../core/LoopSchedule.js"
import { MinuteBuckets } from "../../measures/MinuteBuckets.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { Tally } from "../../telemetry/Tally.js"
import { Boot } from "../Boot.js"
import { repeatCounted } from "../LoopRunner.js"
import { MetricsConfig } from "../MetricsConfig.js"

/** A database that is away is not asked every two seconds: counts wait, and nothing is lost by writing them later. */
const afterFailure = Duration.seconds(15)
/** How long a process that must end goes on trying. */
const lastTry = Duration.seconds(5)

/**
 * Counts what happens to jobs in this process, and writes the minutes in which something did. It waits for a count and not
 * for a clock, so a process with nothing to do does nothing here. Everything that counts stands above it and is gone when
 * it closes: its last flush has it all.
 */
export const layer: Layer.Layer<Tally, never, MinuteBuckets | Metrics | MetricsConfig> = Layer.scoped(
  Tally,
  Effect.gen(function* () {
    const buckets = yield* MinuteBuckets
    const config = yield* MetricsConfig
    const boot = yield* Boot
    const tally = yield* Tally.make
    let revision = 0

    // Cut off or refused, the counts are taken back: written a second time they are the same.
    const flush = Effect.suspend(() => {
      const counts = tally.take()
      if (counts.length === 0) return Effect.succeed({})
      revision += 1
      return buckets.record(boot.id, revision, counts).pipe(
        Effect.onExit((exit) => (Exit.isFailure(exit) ? Effect.sync(() => tally.giveBack(counts)) : Effect.void)),
        Effect.as({})
      )
    })

    const loop: Loop = {
      name: "metrics",
      about: "when something was counted",
      schedule: after(tally.changed, backingOff(Schedule.spaced(config.flush), Schedule.spaced(afterFailure))),
      runAtStart: false,
      steps: [{ name: "flush", timeout: "10 seconds", run: flush }]
    }

    // Registered before the loop starts, so that it runs when the loop has stopped.
    yield* Effect.addFinalizer(() =>
      flush.pipe(
        Effect.interruptible,
        Effect.timeout(lastTry),
        Effect.catchAll((error) => Effect.logWarning("the last counts of this process were not written", error))
      )
    )
    yield* Effect.forkScoped(repeatCounted(loop))
    return tally
  })
).pipe(Layer.provide(Boot.layer))
