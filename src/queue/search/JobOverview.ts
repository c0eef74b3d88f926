import { Context, type Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { DeadReason, State } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { SearchTooSlow } from "./JobSearch.js"

/** What a list shows of a job; no payload. Instants are epoch milliseconds. */
export interface JobGlimpse {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly state: State
  readonly attempt: number
  readonly maxAttempts: number
  readonly priority: number
  readonly runAt: number
  readonly updatedAt: number
  readonly deadReason: DeadReason | undefined
  /** The beginning of the last error. */
  readonly error: string | undefined
}

/** How much of an error a glimpse shows. */
export const glimpseCharacters = 200

/** Dead jobs of one kind that died of the same cause. */
export interface DeadGroup {
  readonly kind: string
  readonly deadReason: DeadReason
  /** What their errors have in common; empty where there is none. */
  readonly shape: string
  readonly count: number
  /** When the first and the last of them died. */
  readonly firstAt: number
  readonly lastAt: number
  /** The newest. */
  readonly sample: { readonly id: JobId; readonly error: string | undefined }
}

export interface DeadGroups {
  /** The largest first. */
  readonly groups: ReadonlyArray<DeadGroup>
  /** How many jobs were looked at. */
  readonly looked: number
  /** Whether there are older ones that were not. */
  readonly sampled: boolean
}

/** How many dead jobs are grouped, and into how many groups. */
export const groupLimits = { looked: 10_000, groups: 200 } as const

/** What operators see at a glance. Where looking at everything would hurt, it is a sample and says so. */
export class JobOverview extends Context.Tag("nightshift/queue/JobOverview")<
  JobOverview,
  {
    /** Dead jobs by kind, reason and the shape of their error: the newest of a queue, or of all. */
    readonly deadGroups: (queue?: string) => Effect.Effect<DeadGroups, SearchTooSlow | DatabaseError>

    /** Jobs that were stored, begun or ended since an instant, newest change first; at most `limit` of each. */
    readonly changed: (
      since: number,
      limit: number
    ) => Effect.Effect<
      { readonly jobs: ReadonlyArray<JobGlimpse>; readonly sampled: boolean },
      SearchTooSlow | DatabaseError
    >

    /** Those of these jobs that are there. */
    readonly glimpses: (ids: ReadonlyArray<JobId>) => Effect.Effect<ReadonlyArray<JobGlimpse>, DatabaseError>
  }
>() {}
