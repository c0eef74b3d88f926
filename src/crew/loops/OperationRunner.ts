import { Clock, Duration, Effect, Option, Schedule, type Scope } from "effect"
import type { Loop } from "../../core/Loop.js"
import { type Latch, makeLatch, wakeable } from "../../core/LoopSchedule.js"
import { Signals } from "../../database/Signals.js"
import { Operations, operationTopic } from "../../queue/admin/Operations.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { CrewConfig } from "../CrewConfig.js"
import { repeatCounted } from "../LoopRunner.js"

/** Maximum length of a pass; the next one follows at once. Bounded, so that a stuck pass is detected. */
const turnLength = Duration.toMillis("20 seconds")

/**
 * New operations are signalled. Operations that another pod left behind are found by polling, once per this many polls.
 */
const pollsPerCheck = 5

/** Runs bulk operations batch by batch until none is left, including those started on other pods. */
const make = (latch: Latch): Effect.Effect<Loop, never, Operations | CrewConfig> =>
  Effect.gen(function* () {
    const operations = yield* Operations
    const { poll } = yield* CrewConfig

    const runBatches = Effect.gen(function* () {
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
      about: "running bulk operations",
      schedule: wakeable(Schedule.spaced(Duration.times(poll, pollsPerCheck)), latch.openedWithin),
      runAtStart: true,
      steps: [{ name: "run batches", timeout: "1 minute", run: runBatches }]
    }
  })

/** Runs until the Scope closes. A signal starts a pass at once. */
export const start: Effect.Effect<void, never, Operations | Signals | CrewConfig | Metrics | Scope.Scope> = Effect.gen(
  function* () {
    const signals = yield* Signals
    const latch = makeLatch()
    const loop = yield* make(latch)
    yield* signals.subscribe(operationTopic, latch.open)
    yield* Effect.forkScoped(repeatCounted(loop))
  }
)
