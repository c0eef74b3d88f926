import { Duration, Effect, Either } from "effect"
import { type DurationInput, decode } from "../core/DurationText.js"
import { split } from "../core/ErrorText.js"
import type { JobId } from "../core/Ids.js"
import type { StoredJob } from "../core/StoredJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { JobDead, type JobNotFound, ResultTimeout } from "./JobErrors.js"
import { JobSearch } from "./search/JobSearch.js"

/** How long to wait for a result. */
export interface ResultOptions {
  /** Maximum time to wait. [no limit] */
  readonly timeout?: DurationInput | undefined
}

/** The result of a job that has ended. */
export const ofEnded = (job: StoredJob): Either.Either<unknown, JobDead> => {
  if (job.state !== "dead" && job.state !== "cancelled") return Either.right(job.result)
  const error = job.lastError === undefined ? undefined : split(job.lastError)
  return Either.left(
    new JobDead({
      id: job.id,
      reason: job.reason ?? "exhausted",
      attempt: job.attempt,
      lastError: error?.message,
      lastErrorStack: error?.trace,
      execution: job.execution
    })
  )
}

/** Waits until the job is done and returns its result. Fails with JobDead or ResultTimeout. */
export const result = (
  id: JobId,
  { timeout }: ResultOptions = {}
): Effect.Effect<unknown, JobDead | ResultTimeout | JobNotFound | DatabaseError, JobSearch> =>
  Effect.gen(function* () {
    const ended = (yield* JobSearch).await(id)
    if (timeout === undefined) return yield* ofEnded(yield* ended)
    const duration = decode(timeout)
    const onTimeout = () => new ResultTimeout({ id, timeout: Duration.toMillis(duration), why: undefined })
    return yield* ofEnded(yield* Effect.timeoutFail(ended, { duration, onTimeout }))
  })
