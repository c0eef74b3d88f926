import type { Data } from "effect"
import type { JobId, Lease } from "../core/Ids.js"
import type { DeadReason } from "../core/StoredJob.js"
import * as Tagged from "../core/Tagged.js"

/** How a run of a job ended, decided by the pod that ran it and fenced by its lease. */
export interface AttemptEnd {
  readonly id: JobId
  readonly lease: Lease
  readonly end: End
  /** Where the job stood; absent, nobody who waits for its key or for the queue's calm is told at once. */
  readonly queue?: string | undefined
  readonly key?: string | undefined
  /** Hears what the job is after this end once that is written, and why it is dead; nothing when the job had moved on. */
  readonly written?: (became: Became, now: number, reason?: DeadReason) => void
}

/** A pause that somebody upstream asked for, of all jobs of the queue or of the key. */
export interface Cooling {
  readonly scope: "queue" | "key"
  /** Milliseconds, where the upstream said. */
  readonly after: number | undefined
}

/** What a job is after a run. */
export type Became = "done" | "pending" | "dead"

export type End = Data.TaggedEnum<{
  /** Done; the result is JSON text. */
  Done: { readonly result: string | undefined }
  /** Back to pending. A job that was asked to cancel meanwhile dies instead. */
  Again: {
    readonly runAt: number
    /** Whether the attempt is used up, or given back as if it had never begun. */
    readonly counted: boolean
    /** What went wrong; absent when nothing did, as for a job that was put back unstarted. */
    readonly error: string | undefined
    /** What the history calls it; absent where nothing is worth remembering. */
    readonly remember: string | undefined
    /**
     * No handler here knows the job. It is dead once no pod that took it did for this many milliseconds, counted from the
     * first that took it since it was stored, requeued or last known.
     */
    readonly patience?: number | undefined
    /** The job is not the only one that pauses. */
    readonly cools?: Cooling | undefined
  }
  /** Dead, with its follow-up stored in the same statement, except when an operator cancelled it. */
  Dead: {
    readonly reason: DeadReason
    readonly counted: boolean
    readonly error: string | undefined
    /** What the history calls it, where that is not the reason. */
    readonly remember?: string | undefined
  }
}>
export const End = Tagged.taggedEnum<End>({ Done: true, Again: true, Dead: true })
