import { Context, type Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { InvalidJob } from "../../core/InvalidJob.js"
import type { StoredJob } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { DedupeKeyHeld, JobNotFound, JobNotInState } from "../JobErrors.js"

/** What can be changed of a job that has not begun. */
export interface JobEdit {
  readonly payload?: unknown
  readonly priority?: number
  /** Epoch milliseconds. */
  readonly runAt?: number
}

/** Where it is said which running job was asked to cancel. */
export const cancelTopic = "cancel"

/** What an operator may do to a job. Each act is one statement and returns the job as it is afterwards. */
export class JobAdmin extends Context.Tag("nightshift/queue/JobAdmin")<
  JobAdmin,
  {
    /**
     * Pending: dead at once. Running: flagged, so that its pod stops it, or nobody runs it again; it is dead when its
     * handler's finalizers have run, or when it was given up. Dead: as it is.
     */
    readonly cancel: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DatabaseError>

    /** Dead or done: pending and due now, with attempts and crashes forgotten and its history kept. */
    readonly requeue: (
      id: JobId
    ) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DedupeKeyHeld | DatabaseError>

    /** Pending: due now. */
    readonly runNow: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DatabaseError>

    /** Pending: with another payload, priority or start. */
    readonly edit: (
      id: JobId,
      edit: JobEdit
    ) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | InvalidJob | DatabaseError>

    /** Anything but running: gone. Returns what it was. */
    readonly remove: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DatabaseError>
  }
>() {}
