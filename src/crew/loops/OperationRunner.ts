import { Clock, Duration, Effect, Option, Schedule, type Scope } from "effect"
import { type Latch, makeLatch } from "../../core/Latch.js"
import type { Loop } from "../../core/Loop.js"
import { wakeable } from "../../core/LoopSchedule.js"
import { Signals } from "../../database/Signals.js"
import { Operations, operationTopic } from "../../queue/admin/Operations.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { CrewConfig } from "../CrewConfig.js"
import { repeatCounted } from "../LoopRunner.js"

/** After so long a turn ends, and the next follows at once: a turn that never ended could not be watched. */
const turnLength = Duration.toMillis("20 seconds")

/** An operation is told of; one that another pod left behind is found by looking, which need not be often. */
const pollsToLook = 5

/** Carries out acts on many jobs, one batch after the other until none is left, whoever began them. */
export const make = (latch: Latch): Effect.Effect<Loop, never, Operations | CrewConfig> =>
  Effect.gen(function* () {
    const operations = yield* Operations
    const { poll } = yield* CrewConfig

    const carryOn = Effect.gen(function* () {
      const began = yield* Clock.currentTimeMillis
      let batches = 0
      for (;;) {
        if (Option.isNone(yield* operations.step())) return { batches }
        batches += 1
        if ((yield* Clock.currentTimeMillis) - began < turnLength) continue
        latch.open()
        return { batches }
      }
    })

    return {
      name: "operations",
      about: "carrying out acts on many jobs",
      schedule: wakeable(Schedule.spaced(Duration.times(poll, pollsToLook)), latch.openedWithin),
      runAtStart: true,
      steps: [{ name: "carry on", timeout: "1 minute", run: carryOn }]
    }
  })

/** Keeps at it until the Scope closes, and begins at once when somebody says that there is something to do. */
export const start: Effect.Effect<void, never, Operations | Signals | CrewConfig | Metrics | Scope.Scope> = Effect.gen(
  function* () {
    const signals = yield* Signals
    const latch = makeLatch()
    const loop = yield* make(latch)
    yield* signals.hear(operationTopic, latch.open)
    yield* Effect.forkScoped(repeatCounted(loop))
  }
)
