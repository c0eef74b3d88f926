import { Effect, Exit, Runtime } from "effect"
import type { Enqueued, EnqueueError, Queue, Submit } from "../Queue.js"

/**
 * Makes a submitter. `direct` stores a job without a fiber, or returns false if it cannot; then the job goes through
 * `enqueue`, in a fiber of its own.
 */
export const submitter = (
  enqueue: typeof Queue.Service.enqueue,
  direct: (...job: Parameters<Submit>) => boolean = () => false
): Effect.Effect<Submit> =>
  Effect.map(Effect.runtime<never>(), (runtime): Submit => {
    const fork = Runtime.runFork(runtime)
    return (job, answer) => {
      // The batcher calls it, between the answers of other callers.
      const answerSafely = (exit: Exit.Exit<Enqueued, EnqueueError>) => {
        try {
          answer(exit)
        } catch (error) {
          fork(Effect.logError("a program failed to take the result of an enqueue", error))
        }
      }
      if (direct(job, answerSafely)) return
      fork(Effect.suspend(() => enqueue([job]))).addObserver((exit) => answerSafely(Exit.flatMap(exit, onlyResult)))
    }
  })

/** The result of a request with one job. */
export const onlyResult = ([only]: ReadonlyArray<Enqueued>): Exit.Exit<Enqueued> =>
  only === undefined ? Exit.die(new Error("a job has no result")) : Exit.succeed(only)
