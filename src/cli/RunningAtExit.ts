import { Effect, Layer, Runtime } from "effect"
import * as Masking from "../telemetry/Masking.js"
import { annotated, LoggedJob } from "../worker/slots/LoggedJob.js"
import { Worker } from "../worker/Worker.js"

// An uncaught error (thrown from a timer or an event listener, or an unhandled promise rejection) exits the process,
// which is Node's default: the state the throwing code left behind is unknown. A handler that calls process.exit has
// the same effect. Another pod rescues the running jobs, and a job that ends its process five times is quarantined as
// poison. This module only logs the running jobs, so that the log names the likely cause.

/** Logs the running jobs when the process exits without draining them. */
export const layer: Layer.Layer<never, never, Worker> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const worker = yield* Worker
    const runSync = Runtime.runSync(yield* Effect.runtime())
    let isLogged = false

    const logRunningJobs = (what: string) => {
      const jobs = worker.running()
      if (isLogged || jobs.length === 0) return
      isLogged = true
      const names = jobs.map(({ id, kind }) => `${kind} ${id}`).join(", ")
      runSync(
        Effect.logFatal(
          jobs.length === 1
            ? `${what} ends the process while 1 job is running, which may be the cause: ${names}`
            : `${what} ends the process while ${jobs.length} jobs are running, one of which may be the cause: ${names}`
        ).pipe(
          Effect.annotateLogs({ jobs: jobs.map(LoggedJob.of) }),
          // The error may quote the payload of any of them.
          annotated({ [Masking.dataOf]: jobs.map(({ payload }) => payload) })
        )
      )
    }

    const onUncaught = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin) => {
      const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
      const kind = origin === "unhandledRejection" ? "an unhandled promise rejection" : "an uncaught error"
      logRunningJobs(`${kind} (${text})`)
    }
    const onExit = (code: number) => logRunningJobs(`exit code ${code}`)

    yield* Effect.acquireRelease(
      // A monitor does not handle the error: Node still prints the stack trace and exits with code 1.
      Effect.sync(() => process.on("uncaughtExceptionMonitor", onUncaught).on("exit", onExit)),
      () => Effect.sync(() => process.off("uncaughtExceptionMonitor", onUncaught).off("exit", onExit))
    )
  })
)
