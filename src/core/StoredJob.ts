import { Schema } from "effect"
import type { BatchId, JobId } from "./Ids.js"

/** The stored status of a job. Only the tables know it; everything else sees the state. */
export type Status = "pending" | "running" | "done" | "dead"

/**
 * The displayed state of a job. `pending` means due; a job that starts later is `scheduled`, or `retrying` if it has
 * failed before. A job that an operator cancelled is `cancelled`; its stored status is `dead`.
 */
export const State = Schema.Literal("scheduled", "retrying", "pending", "running", "done", "dead", "cancelled")
export type State = typeof State.Type

export const DeadReason = Schema.Literal(
  "exhausted",
  "rejected",
  "cancelled",
  "undecodable",
  "unknown_kind",
  "poison",
  "not_undone"
)
export type DeadReason = typeof DeadReason.Type

/** How long a dedupe key is reserved: until the job finishes, or until its row is purged. */
export const DedupeScope = Schema.Literal("active", "retained")
export type DedupeScope = typeof DedupeScope.Type

/** A job to enqueue when this one dies. It cannot have a follow-up itself. */
export const FollowUp = Schema.Struct({
  kind: Schema.String,
  version: Schema.Int,
  queue: Schema.String,
  payload: Schema.Unknown,
  attempts: Schema.Int,
  priority: Schema.optional(Schema.Int),
  /** The kind names no queue: a matching route takes precedence over `queue`. Resolved when the job or batch is stored. */
  routed: Schema.optional(Schema.Boolean)
})
export type FollowUp = typeof FollowUp.Type

/**
 * The follow-up that is stored with a job, or a marker that the code of the job's kind computes the follow-up when the job
 * dies. Processes without that code can enqueue the job with the marker.
 */
export type OnDead = FollowUp | typeof computed
export const computed = "computed"

/** History entry of an attempt that ended in anything other than success. */
export const HistoryEntry = Schema.Struct({
  attempt: Schema.Int,
  pod: Schema.String,
  startedAt: Schema.Number,
  endedAt: Schema.Number,
  outcome: Schema.String,
  message: Schema.optional(Schema.String)
})
export type HistoryEntry = typeof HistoryEntry.Type

/** Limits for all jobs, from every client. */
export const limits = {
  batch: 1000,
  payloadBytes: 1024 * 1024,
  /** Maximum nesting of arrays and objects in JSON. */
  nesting: 1000,
  resultBytes: 64 * 1024,
  /** Maximum length of an error message, and of the stack trace that follows it. */
  errorCharacters: 4096,
  traceCharacters: 4096,
  historyEntries: 32,
  nameCharacters: 128,
  keyCharacters: 512,
  signalCharacters: 256,
  attempts: 1000,
  /** Maximum delay of a job or a retry, and maximum length of a dedupe window. */
  waitDays: 36_500,
  priority: { min: -32_768, max: 32_767 }
} as const

/** Message in the history of a job that succeeded although its cancellation was requested. */
export const cancelledLate = "a cancel was requested too late: the handler succeeded"

/** A stored job with all its fields. Instants are epoch milliseconds. */
export interface StoredJob {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly version: number
  readonly payload: unknown
  readonly key: string | undefined
  readonly state: State
  readonly priority: number
  readonly runAt: number
  readonly attempt: number
  readonly attempts: number
  readonly crashCount: number
  readonly dedupe: { readonly key: string; readonly scope: DedupeScope } | undefined
  readonly pod: string | undefined
  readonly createdAt: number
  readonly updatedAt: number
  readonly startedAt: number | undefined
  readonly heartbeatAt: number | undefined
  readonly finishedAt: number | undefined
  readonly cancelRequestedAt: number | undefined
  readonly onDead: FollowUp | undefined
  readonly result: unknown
  readonly progress: unknown
  readonly lastError: string | undefined
  readonly history: ReadonlyArray<HistoryEntry>
  readonly reason: DeadReason | undefined
  readonly meta: unknown
  readonly batch: BatchId | undefined
  /** The id of the workflow execution, if the job is one. */
  readonly execution: string | undefined
}

/** The states of a job that waits to run: later, again or now. */
export const waitingStates: ReadonlyArray<State> = ["scheduled", "retrying", "pending"]

export const isWaiting = (state: State): boolean => waitingStates.includes(state)

/** Derives the displayed state from the stored status. */
export const stateOf = (
  job: {
    readonly status: Status
    readonly runAt: number
    readonly lastError: string | undefined
    readonly reason: DeadReason | undefined
  },
  now: number
): State => {
  if (job.reason === "cancelled") return "cancelled"
  if (job.status !== "pending") return job.status
  if (job.lastError !== undefined) return "retrying"
  return job.runAt > now ? "scheduled" : "pending"
}
