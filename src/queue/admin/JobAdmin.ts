import { Context, type Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { InvalidJob } from "../../core/InvalidJob.js"
import type { StoredJob } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { DedupeKeyHeld, JobNotFound, JobNotInState } from "../JobErrors.js"

export interface JobEdit {
  readonly payload?: unknown
  readonly priority?: number
  /** Epoch milliseconds. */
  readonly runAt?: number
}

/** Signal topic with the id of a running job whose cancellation was requested. */
export const cancelTopic = "cancel"

/** Operator actions on single jobs. Each is one statement and returns the job after the change. */
export class JobAdmin extends Context.Tag("nightshift/queue/JobAdmin")<
  JobAdmin,
  {
    /**
     * Pending: dead immediately. Running: flagged, so that its pod stops it and no pod runs it again; it is dead once
     * its handler's finalizers have run or the pod has stopped waiting for them. Dead: unchanged.
     */
    readonly cancel: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DatabaseError>

    /** Dead or done: pending and due now. Resets attempts and crashes, keeps the history. */
    readonly requeue: (
      id: JobId
    ) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DedupeKeyHeld | DatabaseError>

    /** Pending: due now. */
    readonly runNow: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DatabaseError>

    /** Pending: changes payload, priority or start time. */
    readonly edit: (
      id: JobId,
      edit: JobEdit
    ) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | InvalidJob | DatabaseError>

    /** Any state except running: deletes the job. Returns it as it was. */
    readonly remove: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DatabaseError>
  }
>() {}
