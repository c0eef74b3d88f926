import { Context, type Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { DeadReason, State } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { SearchTooSlow } from "./JobSearch.js"

/** Summary of a job for lists, without its payload. Times are epoch milliseconds. */
export interface ListedJob {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly state: State
  readonly attempt: number
  readonly attempts: number
  readonly priority: number
  readonly runAt: number
  readonly updatedAt: number
  readonly reason: DeadReason | undefined
  /** The last error, truncated. */
  readonly error: string | undefined
}

export const errorCharacters = 200

/** Dead jobs of one kind with the same cause. */
export interface DeadGroup {
  readonly kind: string
  readonly reason: DeadReason
  /** Shape of their errors; empty if they have none. */
  readonly shape: string
  readonly count: number
  /** Time of the first and last death. */
  readonly firstAt: number
  readonly lastAt: number
  /** Deaths per two-minute interval of the last hour, oldest first. */
  readonly recent: ReadonlyArray<number>
  /** The job that died last. */
  readonly sample: { readonly id: JobId; readonly error: string | undefined }
}

export interface DeadGroups {
  /** Largest first. */
  readonly groups: ReadonlyArray<DeadGroup>
  readonly looked: number
  /** Whether jobs that died earlier were left out. */
  readonly sampled: boolean
}

/** Maximum number of dead jobs to group, and of groups. */
export const groupLimits = { looked: 10_000, groups: 200 } as const

/** Overviews for operators. Where reading everything would be too slow, the result is a sample and marked as such. */
export class JobOverview extends Context.Tag("nightshift/queue/JobOverview")<
  JobOverview,
  {
    /** Groups dead jobs by kind, reason and error shape: the last that died, of one queue or of all. */
    readonly deadGroups: (queue?: string) => Effect.Effect<DeadGroups, SearchTooSlow | DatabaseError>

    /** Jobs stored, started or ended since a time, latest change first; at most `limit` of each. */
    readonly changed: (
      since: number,
      limit: number
    ) => Effect.Effect<
      { readonly jobs: ReadonlyArray<ListedJob>; readonly sampled: boolean },
      SearchTooSlow | DatabaseError
    >

    /** Summaries of the jobs that exist. */
    readonly listed: (ids: ReadonlyArray<JobId>) => Effect.Effect<ReadonlyArray<ListedJob>, DatabaseError>
  }
>() {}
