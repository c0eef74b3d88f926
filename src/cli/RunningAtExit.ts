import { Effect, Layer, Runtime } from "effect"
import { Crew } from "../crew/Crew.js"
import { factsOf } from "../crew/worker/LoggedJob.js"

// An error that no code catches (thrown from a timer or an event listener, or a rejected promise that no code awaits) ends the
// process, as Node has it: what the code that threw has left half-done is unknown. The same goes for a handler that calls
// process.exit. The jobs that were running are rescued by another pod, and a job that ends its process five times is quarantined
// as poison. All that can be done here is to say which jobs were running, so that the culprit is among those named.

/** Logs which jobs were running when this process ends without having stopped them. */
export const layer: Layer.Layer<never, never, Crew> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const crew = yield* Crew
    const runSync = Runtime.runSync(yield* Effect.runtime())
    let isSaid = false

    const say = (what: string) => {
      const jobs = crew.running().map(factsOf)
      if (isSaid || jobs.length === 0) return
      isSaid = true
      const names = jobs.map(({ id, kind }) => `${kind} ${id}`).join(", ")
      runSync(
        Effect.logFatal(
          `${what} ends this process while ${jobs.length} jobs run, of which one may be the cause: ${names}`
        ).pipe(Effect.annotateLogs({ jobs }))
      )
    }

    const onUncaught = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin) => {
      const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
      const kind =
        origin === "unhandledRejection" ? "a rejected promise that no code awaits" : "an error that no code catches"
      say(`${kind} (${text})`)
    }
    const onExit = (code: number) => say(`exit code ${code}`)

    yield* Effect.acquireRelease(
      // The monitor leaves to Node what it does with such an error: print its stack trace and exit with code 1.
      Effect.sync(() => process.on("uncaughtExceptionMonitor", onUncaught).on("exit", onExit)),
      () => Effect.sync(() => process.off("uncaughtExceptionMonitor", onUncaught).off("exit", onExit))
    )
  })
)
