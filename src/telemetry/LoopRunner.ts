import { Effect, FiberRef, LogLevel, type Scope } from "effect"
import { type Loop, type PassOutcome, repeatLoop } from "../core/Loop.js"
import type { Series } from "./MetricFamily.js"
import * as MetricSpec from "./MetricSpec.js"
import { Metrics } from "./Metrics.js"

const passes = MetricSpec.counter("loop_passes_total", "Passes of background loops by outcome.", ["loop", "outcome"])

/** Counts the outcomes of a loop. */
const counterOf = (loop: Loop) =>
  Effect.map(Metrics, (metrics) => {
    const known: Partial<Record<PassOutcome, Series>> = {}
    return (outcome: PassOutcome) => {
      known[outcome] ??= metrics.series(passes, { loop: loop.name, outcome })
      known[outcome].add(1)
    }
  })

/** Repeats a loop on its schedule until it is interrupted. Errors and defects are logged and counted; they never stop it. */
export const repeatCounted = (loop: Loop): Effect.Effect<void, never, Metrics> =>
  Effect.flatMap(counterOf(loop), (count) => repeatLoop(loop, count))

/** The same in a fiber of the Scope, which stops it. Its start and end are logged for debugging. */
export const runLoop = (loop: Loop): Effect.Effect<void, never, Metrics | Scope.Scope> =>
  Effect.withFiberRuntime((fiber) => {
    const started = Effect.asVoid(Effect.forkScoped(repeatCounted(loop)))
    // The finalizer takes as many steps as the start.
    if (LogLevel.greaterThan(fiber.getFiberRef(FiberRef.currentMinimumLogLevel), LogLevel.Debug)) return started
    return Effect.logDebug(`${loop.name} started: ${loop.about}`).pipe(
      Effect.zipRight(started),
      Effect.zipRight(Effect.addFinalizer(() => Effect.logDebug(`${loop.name} stopped`)))
    )
  })
