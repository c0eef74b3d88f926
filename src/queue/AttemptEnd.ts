import type { Data } from "effect"
import * as ErrorText from "../core/ErrorText.js"
import type { JobId, Lease } from "../core/Ids.js"
import { storableText } from "../core/Storable.js"
import type { DeadReason, FollowUp } from "../core/StoredJob.js"
import type { Continuation, Wait } from "../core/Suspension.js"
import * as Tagged from "../core/Tagged.js"
import type { AttemptLog } from "./logs/JobLogs.js"

/** The result of an attempt, decided by the pod that ran it and fenced by its lease. */
export interface AttemptEnd {
  readonly id: JobId
  readonly lease: Lease
  readonly end: End
  /**
   * The job's queue. Without it, this end neither wakes workers that wait for the job's key nor counts toward resetting
   * the queue's cool-downs.
   */
  readonly queue?: string | undefined
  readonly key?: string | undefined
  /** The job's kind. Without it, callers of this process that await the result read it from the database. */
  readonly kind?: string | undefined
  /** Whether the job is an execution, or an execution counts its end (see `ClaimedJob.linked`). */
  readonly linked?: boolean | undefined
  /** See `ClaimedJob.isChild`. An end without it may be that of a child. */
  readonly isChild?: boolean | undefined
  /**
   * The end that was passed to `finalize` in a transaction whose COMMIT got no response. If that transaction did
   * commit, the end of this attempt is the one that was passed.
   */
  readonly unanswered?: ReadonlyArray<AttemptEnd> | undefined
  /** What the attempt has logged and is not stored yet, to be stored with the end. */
  readonly log?: AttemptLog | undefined
  /**
   * Called after the end is written, with the job's new status and, if it died, the reason. Not called if the lease was
   * lost.
   */
  readonly written?: (became: NextStatus, now: number, reason?: DeadReason) => void
}

/**
 * Splits off the ends of jobs that the list also ends under a newer lease. Their own lease is lost: a job has one lease, and
 * a process creates leases in ascending order.
 */
export const withoutSuperseded = (
  ends: ReadonlyArray<AttemptEnd>
): { readonly current: ReadonlyArray<AttemptEnd>; readonly superseded: ReadonlyArray<AttemptEnd> } => {
  const newest = new Map<JobId, Lease>()
  for (const { id, lease } of ends) if (lease > (newest.get(id) ?? "")) newest.set(id, lease)
  if (newest.size === ends.length) return { current: ends, superseded: [] }
  const isCurrent = ({ id, lease }: AttemptEnd) => newest.get(id) === lease
  return { current: ends.filter(isCurrent), superseded: ends.filter((end) => !isCurrent(end)) }
}

/** A pause that an upstream asked for. It applies to all jobs of the queue or of the key. */
export interface Cooling {
  readonly scope: "queue" | "key"
  /** In milliseconds; absent if the upstream gave no delay. */
  readonly after: number | undefined
}

export type NextStatus = "done" | "pending" | "dead"

export type End = Data.TaggedEnum<{
  /** The result is JSON text. */
  Done: { readonly result: string | undefined }
  /** Returns the job to the queue. A job whose cancellation was requested in the meantime dies instead. */
  Again: {
    readonly runAt: number
    /** False restores the attempt, as if it had never started. */
    readonly counted: boolean
    /** The error message; absent if nothing failed, for example when the job is returned unstarted. */
    readonly error: string | undefined
    /** Outcome recorded in the history; absent if no entry is added. */
    readonly remember: string | undefined
    /**
     * This pod has no handler for the kind. The job dies once no pod that claimed it has had a handler for this many
     * milliseconds. The time starts at the first such claim and restarts when the job is requeued or a pod knows its
     * kind. It is due after half a second, then after as long as it has been unknown, but not later than `runAt`.
     */
    readonly unknownTimeout?: number | undefined
    /** Also pauses the job's queue or key. */
    readonly cools?: Cooling | undefined
    /** An execution dies for this reason, after runs that only undo its steps. Their attempts are counted from zero. */
    readonly dying?: DeadReason | undefined
    /** An execution is left to a pod with the release that it is pinned to. */
    readonly parked?: boolean | undefined
  }
  /** The job dies. Its follow-up is stored in the same statement, unless an operator cancelled the job. */
  Dead: {
    readonly reason: DeadReason
    readonly counted: boolean
    readonly error: string | undefined
    /**
     * The follow-up, for a job that stores only that its kind computes one. Without it, the next pod with the code of
     * the kind makes the follow-up.
     */
    readonly followUp?: FollowUp | undefined
    /** Outcome recorded in the history, if it differs from the reason. */
    readonly remember?: string | undefined
  }
  /**
   * An execution waits. Gives the attempt back and adds no history entry. Due at `runAt`, or at once if the execution was
   * woken since the run read `woken`, or one of its waits is already complete. A requested cancellation does not end it:
   * the next run undoes its steps.
   */
  Suspended: {
    readonly runAt: number
    readonly woken: number
    readonly waits: ReadonlyArray<Wait>
    readonly error: string | undefined
    /** Whether every step that an earlier run may have begun has a result: the execution is no longer cut off. */
    readonly caughtUp?: boolean | undefined
    /** The release of the code that suspends the execution. */
    readonly release?: string | undefined
    /**
     * Ends the journal: the execution goes on with this payload and without steps, links to children, waits and its pin.
     * Signals that its code has not received are kept. Without effect if its cancellation was requested.
     */
    readonly continues?: Continuation | undefined
  }
}>
export const End = Tagged.taggedEnum<End>({ Done: true, Again: true, Dead: true, Suspended: true })

/** Returns the part of an error text that is stored: truncated, without characters that PostgreSQL rejects. */
export const errorText = (text: string): string => storableText(ErrorText.shortened(text))
