import { Context, Effect, Layer, Schedule } from "effect"
import * as DurationText from "../core/DurationText.js"
import { Database } from "../database/Database.js"
import { Worker } from "./Worker.js"
import { WorkerConfig } from "./WorkerConfig.js"

/**
 * Built above the worker, so that it closes first. A shutdown writes results, returns jobs, resigns and removes rows
 * one statement after another. Each statement has its own time limit. Without a limit for all of them together, a
 * server that does not answer would delay the exit of the process by the sum of these limits.
 */
export const layer: Layer.Layer<never, never, Worker | WorkerConfig | Database> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const { running } = yield* Worker
    const { grace } = yield* WorkerConfig
    const { beginShutdown } = yield* Database
    const workEnded = Effect.repeat(
      Effect.sync(() => running().length),
      { until: (jobs) => jobs === 0, schedule: Schedule.spaced("100 millis") }
    )
    yield* Effect.addFinalizer(() => beginShutdown(Effect.asVoid(Effect.timeoutOption(workEnded, grace))))
  })
)

/** Logs the stop of a worker that runs in a program. The service logs its own stop. */
export const logged = <E, R>(worker: Layer.Layer<Worker, E, R>): Layer.Layer<Worker, E, R | WorkerConfig> =>
  Layer.scopedContext(
    Effect.gen(function* () {
      let started: string | undefined
      // Added before the worker is built, so it runs after the worker has stopped.
      yield* Effect.addFinalizer(() =>
        started === undefined ? Effect.void : Effect.logInfo(`process ${started} stopped`)
      )
      const { grace } = yield* WorkerConfig
      const built = yield* Layer.build(worker)
      const { pod, running } = Context.get(built, Worker)
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
