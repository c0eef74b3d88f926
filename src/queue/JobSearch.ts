import { Context, type Effect, Schema } from "effect"
import type { JobId } from "../core/Ids.js"
import type { DeadReason, State, StoredJob } from "../core/Job.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { JobNotFound } from "./JobErrors.js"

export interface JobFilter {
  readonly queue?: string | undefined
  readonly kind?: string | undefined
  readonly state?: State | undefined
  readonly deadReason?: DeadReason | undefined
  /** Created at or after, and before; epoch milliseconds. */
  readonly since?: number | undefined
  readonly until?: number | undefined
  /** JSON that the payload must contain. */
  readonly payload?: unknown
  /** Text in the last error. */
  readonly text?: string | undefined
}

export interface JobPage {
  /** Newest first. */
  readonly jobs: ReadonlyArray<StoredJob>
  /** Where the next page begins, if there is one. */
  readonly next: string | undefined
}

export interface Total {
  readonly count: number
  /** False when there are at least so many. */
  readonly exact: boolean
}

/** Jobs of one queue by what is shown of them. */
export interface QueueCounts {
  readonly queue: string
  readonly counts: Readonly<Record<State, number>>
  /** How long the job that is due for the longest has been waiting, in milliseconds. */
  readonly oldestDueAge: number | undefined
}

/** A cursor that no page has given out. */
export class BadCursor extends Schema.TaggedError<BadCursor>()("BadCursor", { cursor: Schema.String }) {
  override get message(): string {
    return "The cursor is not one that a page of this list has given out."
  }
}

/** Reading what is there. Every answer is bounded. */
export class JobSearch extends Context.Tag("nightshift/queue/JobSearch")<
  JobSearch,
  {
    readonly get: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | DatabaseError>

    /** A page of at most `limit` jobs, newest first, from a cursor of the page before. */
    readonly list: (
      filter: JobFilter,
      page: { readonly limit: number; readonly cursor?: string | undefined }
    ) => Effect.Effect<JobPage, BadCursor | DatabaseError>

    /** How many jobs match, counted up to a cap. */
    readonly total: (filter: JobFilter, cap: number) => Effect.Effect<Total, DatabaseError>

    /** Every queue that has jobs, by name. */
    readonly counts: Effect.Effect<ReadonlyArray<QueueCounts>, DatabaseError>

    /** Waits until the job is done or dead. */
    readonly await: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | DatabaseError>
  }
>() {}
