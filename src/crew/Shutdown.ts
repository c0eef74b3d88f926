import { Context, Effect, Layer, Schedule } from "effect"
import * as DurationText from "../core/DurationText.js"
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

/** Logs the stop of a crew that runs in a program. The service logs its own stop. */
export const logged = <E, R>(crew: Layer.Layer<Crew, E, R>): Layer.Layer<Crew, E, R | CrewConfig> =>
  Layer.scopedContext(
    Effect.gen(function* () {
      let started: string | undefined
      // Added before the crew is built, so it runs after the crew has stopped.
      yield* Effect.addFinalizer(() =>
        started === undefined ? Effect.void : Effect.logInfo(`process ${started} stopped`)
      )
      const { grace } = yield* CrewConfig
      const built = yield* Layer.build(crew)
      const { pod, running } = Context.get(built, Crew)
      started = pod
      yield* Effect.addFinalizer(() => {
        const jobs = running().length
        const have = jobs === 1 ? "1 running job has" : `${jobs} running jobs have`
        return jobs === 0
          ? Effect.void
          : Effect.logInfo(`process ${pod} stopping; ${have} up to ${DurationText.format(grace)} to finish`)
      })
      return built
    })
  )
