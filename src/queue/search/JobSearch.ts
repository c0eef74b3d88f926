import { Context, type Duration, type Effect, Schema } from "effect"
import type { BadCursor } from "../../core/BadCursor.js"
import type { JobId } from "../../core/Ids.js"
import type { State, StoredJob } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { JobNotFound } from "../JobErrors.js"
import type { JobFilter } from "./JobFilter.js"

export { BadCursor } from "../../core/BadCursor.js"
export type { JobFilter } from "./JobFilter.js"

export interface PageRequest {
  readonly limit: number
  readonly cursor?: string | undefined
  /** Look only among so many of the newest jobs, whatever the filter says. */
  readonly among?: number
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
  /** Counts that are not exact: a cap was reached, so that there are at least so many, or the done ones were estimated. */
  readonly approximate: ReadonlyArray<State>
  /** How long the job that is due for the longest has been waiting, in milliseconds. */
  readonly oldestDueAge: number | undefined
}

/** Looking was given up, so that it does not keep the database from its work. */
export class SearchTooSlow extends Schema.TaggedError<SearchTooSlow>()("SearchTooSlow", { seconds: Schema.Number }) {
  override get message(): string {
    return `Looking took longer than ${this.seconds} s and was given up. Narrow the filter: fewer states, one queue, a shorter time.`
  }
}

/** Reading what is there. Every answer is bounded, and so is the time it may take. */
export class JobSearch extends Context.Tag("nightshift/queue/JobSearch")<
  JobSearch,
  {
    readonly get: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | DatabaseError>

    /** A page of at most `limit` jobs, newest first, from a cursor of the page before. */
    readonly list: (
      filter: JobFilter,
      page: PageRequest
    ) => Effect.Effect<JobPage, BadCursor | SearchTooSlow | DatabaseError>

    /** How many jobs match, counted up to a cap. Counting may take as long as looking may, or as the `patience` says. */
    readonly total: (
      filter: JobFilter,
      cap: number,
      patience?: Duration.Duration
    ) => Effect.Effect<Total, SearchTooSlow | DatabaseError>

    /** Every queue that has jobs, by name. Beyond some ten thousand of a sort, jobs are not counted one by one. */
    readonly counts: Effect.Effect<ReadonlyArray<QueueCounts>, SearchTooSlow | DatabaseError>

    /** Waits until the job is done or dead. */
    readonly await: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | DatabaseError>
  }
>() {}
