import { Duration, Effect, Either } from "effect"
import { type DurationInput, decode } from "../core/DurationText.js"
import { split } from "../core/ErrorText.js"
import type { JobId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { JobCancelled, JobDead, type JobNotFound, ResultTimeout } from "./JobErrors.js"
import { type EndedJob, JobSearch } from "./search/JobSearch.js"

/** How long to wait for a result. */
export interface ResultOptions {
  /** Maximum time to wait. [no limit] */
  readonly timeout?: DurationInput | undefined
}

/** The result of a job that has ended. */
export const ofEnded = (job: EndedJob): Either.Either<unknown, JobDead | JobCancelled> => {
  if (job.state === "done") return Either.right(job.result)
  const { attempt, execution, id, state } = job
  if (state === "cancelled") return Either.left(new JobCancelled({ id, attempt, execution }))
  if (state !== "dead") return Either.right(job.result)
  const error = job.lastError === undefined ? undefined : split(job.lastError)
  return Either.left(
    new JobDead({
      id,
      reason: job.reason ?? "exhausted",
      attempt,
      lastError: error?.message,
      lastErrorStack: error?.trace,
      execution
    })
  )
}

/** Waits until the job is done and returns its result. Fails with JobDead, JobCancelled or ResultTimeout. */
export const result = (
  id: JobId,
  { timeout }: ResultOptions = {}
): Effect.Effect<unknown, JobDead | JobCancelled | ResultTimeout | JobNotFound | DatabaseError, JobSearch> =>
  Effect.gen(function* () {
    const ended = (yield* JobSearch).awaitEnd(id)
    if (timeout === undefined) return yield* ofEnded(yield* ended)
    const duration = decode(timeout)
    const onTimeout = () => new ResultTimeout({ id, timeout: Duration.toMillis(duration), why: undefined })
    return yield* ofEnded(yield* Effect.timeoutFail(ended, { duration, onTimeout }))
  })
