import type { Effect } from "effect"
import type { JobId } from "../core/Ids.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { ClaimedExecution } from "../queue/Queue.js"
import type { AttemptLog } from "./AttemptLog.js"

export interface LateSuccess {
  readonly result: unknown
  /** The handler could see the interruption, and may have returned before its work was complete. */
  readonly mayBePartial: boolean
}

/** The job as passed to its handler. */
export interface JobContext {
  /** UUID of the job. The same in every attempt, so it can serve as an idempotency key. */
  readonly id: JobId
  /** Name of the job's kind. */
  readonly kind: string
  /** Queue that the job was claimed from. */
  readonly queue: string
  /** Key that limits or orders this job together with others. */
  readonly key: string | undefined
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /** Attempts before the job is dead, counting the first. */
  readonly attempts: number
  /** Object that was stored beside the payload. Undefined if there is none. */
  readonly meta: unknown
  /** Set if the job is a workflow execution. */
  readonly execution?: ClaimedExecution | undefined
  /** Keeps the lines that the handler logs. */
  readonly attemptLog?: AttemptLog | undefined
  /** Reports the result of a handler that succeeded although it was interrupted, and would otherwise be dropped. */
  succeededLate?(late: LateSuccess): void
  /** Stores a JSON value that describes the job's progress, shown in Mission Control and the API. */
  readonly progress: (value: unknown) => Effect.Effect<void, InvalidJob | DatabaseError>
}
