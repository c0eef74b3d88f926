import { Context, type Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { StoredJob } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { JobNotFound } from "../JobErrors.js"
import type { SearchTooSlow, Total } from "../search/JobSearch.js"
import type { QueueSettings } from "../settings/QueueSettings.js"
import type { KeyHold } from "./KeyHold.js"

/** What stands between a job and its run, so far as its queue knows. Instants are epoch milliseconds. */
export interface Standing {
  readonly job: StoredJob
  /** When this was so. */
  readonly now: number
  readonly paused: boolean
  readonly maxWorkers: number
  /** The whole queue begins nothing before this, because a job of it was throttled, so many times in a row. */
  readonly cooling: { readonly until: number; readonly times: number } | undefined
  /** The same for the jobs of its key. */
  readonly keyCoolingUntil: number | undefined
  /** The queue's own rate lets nothing begin before `opensAt`. */
  readonly rated: { readonly rate: NonNullable<QueueSettings["rate"]>; readonly opensAt: number } | undefined
  /** Another job of its key comes first. */
  readonly held: KeyHold | undefined
  /** How many due jobs come before it in the line; none where it is not due itself. */
  readonly ahead: Total
  /** Whether keys take turns in this queue, so that its place in the line is not the order in which jobs begin. */
  readonly keyed: boolean
}

/** Jobs that come before one are counted up to so many: nobody plans by more. */
export const mostAhead = 1_000

/** Where jobs stand. */
export class JobDiagnosis extends Context.Tag("nightshift/queue/JobDiagnosis")<
  JobDiagnosis,
  {
    /** What of its queue keeps a job from running now. Bounded in rows and time, however long the line is. */
    readonly of: (id: JobId) => Effect.Effect<Standing, JobNotFound | SearchTooSlow | DatabaseError>
  }
>() {}
