import { Effect, Exit, Runtime } from "effect"
import type { Enqueued, EnqueueError, Queue, Submit } from "../Queue.js"

/**
 * Makes a submitter. `direct` stores a job without a fiber, or returns false if it cannot; then the job goes through
 * `enqueue`, in a separate fiber.
 */
export const submitter = (
  enqueue: typeof Queue.Service.enqueue,
  direct: (...job: Parameters<Submit>) => boolean = () => false
): Effect.Effect<Submit> =>
  Effect.map(Effect.runtime<never>(), (runtime): Submit => {
    const fork = Runtime.runFork(runtime)
    return (job, onResult) => {
      // The batcher calls this, so an exception must not reach the callers that come after it.
      const report = (exit: Exit.Exit<Enqueued, EnqueueError>) => {
        try {
          onResult(exit)
        } catch (error) {
          fork(Effect.logError("the callback for the result of an enqueue threw", error))
        }
      }
      if (direct(job, report)) return
      fork(Effect.suspend(() => enqueue([job]))).addObserver((exit) => report(Exit.flatMap(exit, onlyResult)))
    }
  })

/** The result of a request with one job. */
export const onlyResult = ([only]: ReadonlyArray<Enqueued>): Exit.Exit<Enqueued> =>
  only === undefined ? Exit.die(new Error("a job has no result")) : Exit.succeed(only)
