import { Context, type Duration, type Effect, type Option, Schema } from "effect"
import type { BadCursor } from "../../core/BadCursor.js"
import type { JobId } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { JobFilter } from "../search/JobFilter.js"
import type { Total } from "../search/JobSearch.js"

/** What can be done to many jobs at once. */
export const Action = Schema.Literal("cancel", "requeue", "run-now", "delete")
export type Action = typeof Action.Type

export const OperationStatus = Schema.Literal("running", "done", "cancelled", "failed")
export type OperationStatus = typeof OperationStatus.Type

/** Which jobs: these, or all that a filter means. */
export type Target =
  | { readonly ids: ReadonlyArray<JobId>; readonly filter?: undefined }
  | { readonly filter: JobFilter; readonly ids?: undefined }

export interface NewOperation {
  readonly action: Action
  readonly target: Target
  readonly who: string
  readonly reason?: string | undefined
}

/** An act on many jobs, and how far it has come. */
export interface Operation {
  readonly id: string
  readonly action: Action
  readonly status: OperationStatus
  readonly who: string
  readonly reason: string | undefined
  /** Absent where the jobs were named one by one. */
  readonly filter: JobFilter | undefined
  /** Epoch milliseconds. */
  readonly createdAt: number
  readonly updatedAt: number
  readonly finishedAt: number | undefined
  /** How many jobs it was about when it began, where that could be counted in time. */
  readonly total: Total | undefined
  readonly done: number
  /** Jobs to which it could not be done, by why: the state they were in, `not_found`, `dedupe_key_held` or `locked`. */
  readonly skipped: Readonly<Record<string, number>>
  /** Jobs at which something broke. */
  readonly failed: number
  /** What ended it before its end. */
  readonly error: string | undefined
}

/** There is no operation with this id, or no longer. */
export class OperationNotFound extends Schema.TaggedError<OperationNotFound>()("OperationNotFound", {
  id: Schema.String
}) {
  override get message(): string {
    return `There is no operation ${this.id}.`
  }
}

/** Where it is said that an operation was begun. */
export const operationTopic = "operation"

/** How many jobs may be named one by one. */
export const mostIds = 10_000

/** How many jobs one batch is about, and how many are looked at to find them. */
export const batchLimits = { jobs: 1_000, looked: 20_000 } as const

/**
 * Acts on many jobs. They run in short batches, each of which stands by itself: whoever takes the next one carries on where
 * the last one ended, also in another process. An operation is about jobs that stood when it began and meets each of them
 * once, so it always ends.
 */
export class Operations extends Context.Tag("nightshift/queue/Operations")<
  Operations,
  {
    /** Stores an operation to be carried out, and says so to all pods. Part of the caller's transaction where there is one. */
    readonly begin: (operation: NewOperation) => Effect.Effect<Operation, DatabaseError>

    /**
     * Carries out one batch of an operation that nobody else is at, the one that has waited for longest or the one asked
     * for, and answers how it stands then; nothing when there is none to be carried out.
     */
    readonly step: (id?: string) => Effect.Effect<Option.Option<Operation>, DatabaseError>

    readonly get: (id: string) => Effect.Effect<Operation, OperationNotFound | DatabaseError>

    /** A page, newest first. */
    readonly list: (page: {
      readonly limit: number
      readonly cursor?: string | undefined
    }) => Effect.Effect<
      { readonly operations: ReadonlyArray<Operation>; readonly next: string | undefined },
      BadCursor | DatabaseError
    >

    /** Ends it before its next batch; what was done stays done. One that is over stays as it is. */
    readonly cancel: (id: string) => Effect.Effect<Operation, OperationNotFound | DatabaseError>

    /** Forgets operations that ended longer ago than this. Returns how many. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}
