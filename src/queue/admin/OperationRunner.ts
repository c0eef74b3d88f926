import { Clock, Duration, Effect, Option, Schedule, type Scope } from "effect"
import type { Loop } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { Operations, operationTopic } from "./Operations.js"

/** Maximum length of a pass; the next one follows at once. Bounded, so that a stuck pass is detected. */
const turnLength = Duration.toMillis("20 seconds")

/**
 * New operations are signalled. Operations that another pod left behind are found by polling, once per this many polls.
 */
const pollsPerCheck = 5

/** Runs bulk operations batch by batch until none is left, including those started on other pods. A hint starts a pass at once. */
export const make = (poll: Duration.Duration): Effect.Effect<Loop, never, Operations | Hints | Scope.Scope> =>
  Effect.gen(function* () {
    const operations = yield* Operations
    const hints = yield* Hints
    const latch = makeLatch()
    yield* hints.subscribe(operationTopic, latch.open)

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
