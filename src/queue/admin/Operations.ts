import { Context, Duration, type Effect, type Option, Schema } from "effect"
import type { BadCursor } from "../../core/BadCursor.js"
import { Expected } from "../../core/ExpectedError.js"
import type { JobId } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { undoFor } from "../JobAdmin.js"
import type { JobFilter } from "../search/JobFilter.js"
import type { Total } from "../search/Total.js"
import * as Fields from "./OperationFields.js"
import type { Rehearsal } from "./Rehearsal.js"

export const Action = Schema.Literal(...Fields.actions)
export type Action = (typeof Fields.actions)[number]

export const OperationAction = Schema.Literal(...Fields.actions, "undo")
export type OperationAction = Fields.OperationAction

export const OperationStatus = Schema.Literal(...Fields.statuses)
export type OperationStatus = Fields.OperationStatus

/** A list of jobs, or all jobs that match a filter. */
export type Target =
  | { readonly ids: ReadonlyArray<JobId>; readonly filter?: undefined }
  | { readonly filter: JobFilter; readonly ids?: undefined }

export interface NewOperation {
  readonly action: Action
  readonly target: Target
  readonly who: string
  readonly reason?: string | undefined
  /**
   * Number of jobs to requeue first. The others follow when all of these have succeeded; if one fails, the operation fails
   * and leaves the others as they are. [all at once]
   */
  readonly rehearse?: number | undefined
}

/** An action on many jobs and its progress. Times are epoch milliseconds. */
export interface Operation extends Fields.OperationFields {
  /** Absent if the jobs were listed by id. */
  readonly filter: JobFilter | undefined
  /** The jobs that are requeued first; undefined without a rehearsal. */
  readonly rehearsal: Rehearsal | undefined
}

export class OperationNotFound extends Expected<OperationNotFound>(404)("OperationNotFound", { id: Schema.String }) {
  override get message(): string {
    return `There is no operation ${this.id}. Ended operations are deleted after 7 days at most.`
  }
}

const notUndoable = {
  running: "is still running. Stop it or wait until it ends, then undo it.",
  too_many: "cannot be undone: it covered more jobs than the limit of 100,000, or 10,000 for delete.",
  undo: "is itself an undo, which cannot be undone. Start the action again instead.",
  undone: "was already undone, or its undo is running.",
  expired: "cannot be undone: it ended more than an hour ago.",
  nothing: "has nothing to undo: it changed no job, or only running jobs, which were asked to stop."
}

/** The operation cannot be undone. */
export class OperationNotUndoable extends Expected<OperationNotUndoable>(409)("OperationNotUndoable", {
  id: Schema.String,
  why: Schema.Literal("running", "too_many", "undo", "undone", "expired", "nothing")
}) {
  override get message(): string {
    return `Operation ${this.id} ${notUndoable[this.why]}`
  }
}

/**
 * Maximum number of jobs of an operation that can be undone. A delete saves whole jobs, the other actions only the
 * fields they change.
 */
export const undoLimits: Readonly<Record<Action, number>> = {
  cancel: 100_000,
  requeue: 100_000,
  "run-now": 100_000,
  delete: 10_000
}

/** Whether an action on this many jobs can be undone. */
export const isUndoable = (action: Action, total: Total | undefined): boolean =>
  total?.exact === true && total.count <= undoLimits[action]

/** Why the operation cannot be undone, or undefined. `kept` is the number of jobs whose previous state is saved. */
export const whyNotUndoable = (
  { action, finishedAt, undoable }: Pick<Operation, "action" | "finishedAt" | "undoable">,
  { isUndone, kept, now }: { readonly isUndone: boolean; readonly kept: number; readonly now: number }
): OperationNotUndoable["why"] | undefined => {
  if (action === "undo") return "undo"
  if (finishedAt === undefined) return "running"
  if (!undoable) return "too_many"
  if (isUndone) return "undone"
  if (kept > 0) return undefined
  return now - finishedAt > Duration.toMillis(undoFor) ? "expired" : "nothing"
}

export const operationTopic = "operation"

/** Maximum number of jobs listed by id. */
export const maxOperationIds = 10_000

/** Maximum number of jobs per batch, and of jobs read to find them. */
export const batchLimits = { jobs: 1_000, looked: 20_000 } as const

/**
 * Actions on many jobs. They run in short batches that commit separately: the next batch continues where the last one
 * ended, even in another process. An operation covers the jobs that existed when it started and visits each once, so it
 * always ends.
 */
export class Operations extends Context.Tag("nightshift/queue/Operations")<
  Operations,
  {
    /** Stores an operation and notifies all pods. Runs in the caller's transaction if there is one. */
    readonly begin: (operation: NewOperation) => Effect.Effect<Operation, DatabaseError>

    /**
     * Stores an operation that restores the jobs of another one to their previous state. Skips jobs that have changed
     * since and jobs that were running. An operation is undone once; if its undo was stopped or failed, it may be undone
     * again. Runs in the caller's transaction if there is one.
     */
    readonly undo: (
      id: string,
      by: Pick<NewOperation, "who" | "reason">
    ) => Effect.Effect<Operation, OperationNotFound | OperationNotUndoable | DatabaseError>

    /**
     * Runs one batch of the given operation, or of the one that has waited longest, and returns it afterwards. Of a rehearsal
     * whose jobs run, it stores how many have succeeded. Returns none if there is nothing to do or another process does it.
     */
    readonly step: (id?: string) => Effect.Effect<Option.Option<Operation>, DatabaseError>

    /** Returns an operation and its progress. Fails with OperationNotFound. */
    readonly get: (id: string) => Effect.Effect<Operation, OperationNotFound | DatabaseError>

    /** Lists operations, newest first. */
    readonly list: (page: {
      /** Maximum number of operations in this page. */
      readonly limit: number
      /** `next` of the previous page. [the first page] */
      readonly cursor?: string | undefined
    }) => Effect.Effect<
      {
        /** One page of operations. */
        readonly operations: ReadonlyArray<Operation>
        /** Cursor of the next page. Undefined on the last page. */
        readonly next: string | undefined
      },
      BadCursor | DatabaseError
    >

    /** Stops the operation before its next batch; finished batches stay. A finished operation is unchanged. */
    readonly cancel: (id: string) => Effect.Effect<Operation, OperationNotFound | DatabaseError>

    /** Deletes operations that ended longer ago than this. Returns how many. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}
