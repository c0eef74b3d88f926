import { Context, type Duration, type Effect, Schema } from "effect"
import type { BadCursor } from "../../core/BadCursor.js"
import type { Count } from "../../core/Count.js"
import { Expected } from "../../core/ExpectedError.js"
import type { JobId } from "../../core/Ids.js"
import type { State, StoredJob } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { JobNotFound } from "../JobErrors.js"
import type { JobFilter } from "./JobFilter.js"
import type { JobSort } from "./JobSort.js"
import type { Total } from "./Total.js"

export { BadCursor } from "../../core/BadCursor.js"
export type { JobFilter } from "./JobFilter.js"

/** Default and maximum page size of lists. */
export const pageLimits = { default: 50, max: 1000 } as const

export interface PageRequest {
  readonly limit: number
  readonly cursor?: string | undefined
  /** Newest first if absent. */
  readonly sort?: JobSort | undefined
  /** Search only this many of the newest jobs. */
  readonly among?: number
  /** Time limit of a list by id, if shorter than the default. */
  readonly timeout?: Duration.Duration | undefined
}

export interface JobPage {
  /** In the requested order. */
  readonly jobs: ReadonlyArray<StoredJob>
  /** Cursor of the next page, if there is one. */
  readonly next: string | undefined
  /** If the order covers only the newest jobs: how many of them. */
  readonly sortedAmong?: number | undefined
  /** If only this many jobs were searched for the page, and `next` continues with older ones. */
  readonly searched?: number | undefined
}

/** How many jobs a list searches for one page, if no index supports its filter. */
export class SearchWindow extends Context.Reference<SearchWindow>()("nightshift/queue/SearchWindow", {
  defaultValue: () => 200_000
}) {}

/** Maximum number of jobs that `find` returns. */
export const maxFound = 20

/** Shortest beginning of an id that `find` accepts: its time. Any number of ids share a shorter one. */
export const minIdStart = "0198c0de-0000".length

export type { Total }

export interface QueueCounts {
  readonly queue: string
  readonly counts: Readonly<Record<State, Count>>
  /** Waiting time of the job that has been due longest, in milliseconds. */
  readonly oldestDueAge: number | undefined
  /** When that job became due, in epoch milliseconds. */
  readonly oldestDueAt: number | undefined
}

export class SearchTooSlow extends Expected<SearchTooSlow>(503)("SearchTooSlow", { seconds: Schema.Number }) {
  override get message(): string {
    return `The query exceeded its limit of ${this.seconds} s and was cancelled. Narrow the filter: fewer states, one queue, a shorter time range.`
  }
}

/** A list over several cells of a fleet can be sorted by time only: other orders are those of a cell. */
export class SortRefused extends Expected<SortRefused>(400, { field: "sort" })("SortRefused", {
  by: Schema.String,
  cells: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `Jobs of several cells (${this.cells.join(", ")}) can be sorted by created only, got ${this.by}. Sort by created, or list the jobs of one cell.`
  }
}

/** A job that has ended, as far as its result needs. */
export type EndedJob =
  | { readonly kind: string; readonly state: "done"; readonly result: unknown }
  | (Pick<StoredJob, "id" | "kind" | "attempt" | "execution" | "reason" | "lastError" | "result"> & {
      readonly state: StoredJob["state"]
    })

/** Read access to jobs. Results are bounded in size, queries in time. */
export class JobSearch extends Context.Tag("nightshift/queue/JobSearch")<
  JobSearch,
  {
    /** Returns a job with all its fields. Fails with JobNotFound. */
    readonly get: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | DatabaseError>

    /** Returns at most `limit` jobs, newest first or as sorted, starting after the cursor. */
    readonly list: (
      filter: JobFilter,
      page: PageRequest
    ) => Effect.Effect<JobPage, BadCursor | SortRefused | SearchTooSlow | DatabaseError>

    /**
     * The jobs whose id begins with this text, or whose dedupe key or key it is, newest first and by index: a dedupe key
     * that the job holds, a key of an unfinished job.
     */
    readonly find: (text: string) => Effect.Effect<ReadonlyArray<StoredJob>, SearchTooSlow | DatabaseError>

    /** Counts matching jobs up to a cap, within the query time limit or `timeout`. */
    readonly total: (
      filter: JobFilter,
      cap: number,
      timeout?: Duration.Duration
    ) => Effect.Effect<Total, SearchTooSlow | DatabaseError>

    /** Counts for all queues that have jobs, by name. Exact up to about 10,000 jobs of a queue and state. */
    readonly counts: Effect.Effect<ReadonlyArray<QueueCounts>, SearchTooSlow | DatabaseError>

    /** Queues with a waiting job that has been due since `before` or longer, whether or not they may start jobs. */
    readonly overdue: (before: number) => Effect.Effect<ReadonlyArray<string>, DatabaseError>

    /** Waits until the job is done or dead. */
    readonly await: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | DatabaseError>

    /** Like `await`, for callers that need only the result: without a query, if the job ends in this process. */
    readonly awaitEnd: (id: JobId) => Effect.Effect<EndedJob, JobNotFound | DatabaseError>
  }
>() {}
