import { Context, Duration, type Effect } from "effect"
import type { JobId } from "../core/Ids.js"
import { InvalidJob } from "../core/InvalidJob.js"
import type { StoredJob } from "../core/StoredJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Erase } from "../database/SubjectText.js"
import type { DedupeKeyHeld, JobNotFound, JobNotInState, UndoRefused } from "./JobErrors.js"

/** Recorded steps of an execution belong to the payload it started with. */
export const startedPayload: InvalidJob = new InvalidJob({
  index: 0,
  field: "payload",
  reason:
    "cannot be changed: the execution has started, and its recorded steps belong to this payload. Cancel it and start another"
})

export interface JobEdit {
  readonly payload?: unknown
  readonly priority?: number
  /** Epoch milliseconds. */
  readonly runAt?: number
}

/** Topic of hints with the id of a running job whose cancellation was requested. */
export const cancelTopic = "cancel"

/** How long an action can be undone, at least. */
export const undoFor = Duration.hours(1)

/** Actions that can be undone. Each is one statement and returns the job after the change. */
export interface JobActions {
  /**
   * Pending: dead immediately. Running: flagged, so that its pod stops it and no pod runs it again; it is dead once
   * its handler's finalizers have run or the pod has stopped waiting for them. Dead: unchanged.
   */
  readonly cancel: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DatabaseError>

  /** Dead or done: pending and due now. Resets attempts and crashes, keeps the history. */
  readonly requeue: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DedupeKeyHeld | DatabaseError>

  /** Pending: due now. */
  readonly runNow: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DatabaseError>

  /** Any state except running: deletes the job. Returns it as it was. */
  readonly remove: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | DatabaseError>
}

/** Operator actions on single jobs. */
export class JobAdmin extends Context.Tag("nightshift/queue/JobAdmin")<
  JobAdmin,
  JobActions & {
    /** The same actions, which also save the previous state of the job under this id for `undo`. */
    readonly recordingUndo: (act: string) => JobActions

    /** Pending: changes payload, priority or start time. An execution that has started keeps its payload. */
    readonly edit: (
      id: JobId,
      edit: JobEdit
    ) => Effect.Effect<StoredJob, JobNotFound | JobNotInState | InvalidJob | DatabaseError>

    /**
     * Restores the job as it was before the action: its state, start time, attempts, error and reason; a deleted job
     * with all its fields. Fails if the job has changed since, or was running before the action.
     */
    readonly undo: (id: JobId, act: string) => Effect.Effect<StoredJob, UndoRefused | DedupeKeyHeld | DatabaseError>

    /** Of these actions on single jobs, those that `undo` would restore: the job is as the action left it. */
    readonly undoable: (acts: ReadonlyArray<string>) => Effect.Effect<ReadonlySet<string>, DatabaseError>

    /** Deletes undo records of actions, and of operations that ended, longer ago than this. Returns the number of jobs. */
    readonly pruneUndo: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>

    /** Deletes undo records that have data of a subject, what was kept of its deleted jobs, and their follow-ups that are to be computed. */
    readonly eraseUndo: Erase
  }
>() {}
