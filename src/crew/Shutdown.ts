import { Effect, Layer, Schedule } from "effect"
import { Database } from "../database/Database.js"
import { Crew } from "./Crew.js"
import { CrewConfig } from "./CrewConfig.js"

/**
 * Built above the crew, so that it closes first. A shutdown writes results, returns jobs, resigns and removes rows one
 * statement after another. Each of them has its own limit; without a limit for all of them, a server that does not answer
 * keeps the process for the sum.
 */
export const layer: Layer.Layer<never, never, Crew | CrewConfig | Database> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const { running } = yield* Crew
    const { grace } = yield* CrewConfig
    const { beginShutdown } = yield* Database
    const workEnded = Effect.repeat(
      Effect.sync(() => running().length),
      { until: (jobs) => jobs === 0, schedule: Schedule.spaced("100 millis") }
    )
    yield* Effect.addFinalizer(() => beginShutdown(Effect.asVoid(Effect.timeoutOption(workEnded, grace))))
  })
)
