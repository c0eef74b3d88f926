import { Context, type Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { StoredJob } from "../../core/StoredJob.js"
import type { WaitKind } from "../../core/Suspension.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { JobNotFound } from "../JobErrors.js"
import type { SearchTooSlow, Total } from "../search/JobSearch.js"
import { attemptsAt, formOf, opensAt, type QueueRow } from "../settings/QueueRow.js"
import type { QueueSettings } from "../settings/QueueSettings.js"
import type { KeyHold } from "./KeyHold.js"

/** Why a job is not running, as far as its queue is concerned. Times are epoch milliseconds. */
export interface Standing {
  readonly job: StoredJob
  readonly now: number
  readonly paused: boolean
  readonly maxWorkers: number
  /** The queue claims nothing before `until` because jobs were throttled, `times` times in a row. */
  readonly cooling: { readonly until: number; readonly times: number } | undefined
  /** The cool-down of the job's key. */
  readonly keyCoolingUntil: number | undefined
  /** The queue's rate limit allows no claim before `opensAt`. */
  readonly rated: { readonly rate: NonNullable<QueueSettings["rate"]>; readonly opensAt: number } | undefined
  /** Another job of the same key that goes first. */
  readonly held: KeyHold | undefined
  /** Number of due jobs before this job in the queue; 0 if the job is not due. */
  readonly ahead: Total
  /** What a suspended execution waits for. */
  readonly waits: ReadonlyArray<OpenWait>
  /** The release that an execution is pinned to, if a pod with another release has left it to that one. */
  readonly leftTo: string | undefined
  /** Whether keys take turns in this queue, so that the position is not the start order. */
  readonly keyed: boolean
}

/** A wait of a suspended execution. */
export interface OpenWait {
  readonly kind: WaitKind
  readonly name: string
  readonly dueAt: number | undefined
  /** Children that have not ended. */
  readonly remaining: number | undefined
}

export const maxCountedAhead = 1_000

/** Explains why jobs are not running. */
export class JobDiagnosis extends Context.Tag("nightshift/queue/JobDiagnosis")<
  JobDiagnosis,
  {
    /** Returns what in its queue keeps a job from running now. Bounded in rows and time. */
    readonly of: (id: JobId) => Effect.Effect<Standing, JobNotFound | SearchTooSlow | DatabaseError>
  }
>() {}

export interface Neighbours {
  readonly coolingUntil?: number | undefined
  readonly held?: KeyHold | undefined
  readonly ahead?: number
  readonly waits?: ReadonlyArray<OpenWait>
  readonly leftTo?: string | undefined
}

const later = (instant: number | undefined, now: number): number | undefined =>
  instant !== undefined && instant > now ? instant : undefined

/** Derives a job's standing from its queue's row and the other jobs. Expired cool-downs are ignored. */
export const diagnosisOf = (
  job: StoredJob,
  row: QueueRow,
  now: number,
  { ahead = 0, coolingUntil, held, leftTo, waits = [] }: Neighbours = {}
): Standing => {
  const until = later(row.throttledUntil, now)
  // Only the rate: pauses and cool-downs are reported separately.
  const opens = later(opensAt({ ...row, paused: false, throttledUntil: undefined }, now), now)
  return {
    job,
    now,
    paused: row.paused,
    maxWorkers: row.maxWorkers,
    cooling: until === undefined ? undefined : { until, times: attemptsAt(row, now) },
    keyCoolingUntil: later(coolingUntil, now),
    rated: row.rate === undefined || opens === undefined ? undefined : { rate: row.rate, opensAt: opens },
    held,
    waits,
    leftTo,
    ahead: { count: Math.min(ahead, maxCountedAhead), exact: ahead <= maxCountedAhead },
    keyed: formOf(row, now).keyed
  }
}
