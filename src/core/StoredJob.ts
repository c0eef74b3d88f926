import { Schema } from "effect"
import type { BatchId, JobId } from "./Id.js"

// The declarations do not mention Effect: the views of programs that use promises are made from them.

const states = ["scheduled", "retrying", "pending", "running", "done", "dead", "cancelled"] as const
const deadReasons = [
  "exhausted",
  "rejected",
  "cancelled",
  "undecodable",
  "unknown_kind",
  "poison",
  "not_undone"
] as const
const dedupeScopes = ["active", "retained"] as const

/** The stored status of a job. Only the tables know it; everything else sees the state. */
export type Status = "pending" | "running" | "done" | "dead"

/**
 * The displayed state of a job. `pending` means due; a job that starts later is `scheduled`, or `retrying` if it has
 * failed before. A job that an operator cancelled is `cancelled`; its stored status is `dead`.
 */
export type State = (typeof states)[number]
/** @internal */
export const State = Schema.Literal(...states)

/**
 * Why a job is dead: all attempts failed, a handler rejected it, an operator cancelled it, no code could decode its
 * payload, no process knew its kind, its process crashed five times, or a workflow could not undo its steps.
 */
export type DeadReason = (typeof deadReasons)[number]
/** @internal */
export const DeadReason = Schema.Literal(...deadReasons)

/** How long a dedupe key is reserved: until the job finishes, or until its row is purged. */
export type DedupeScope = (typeof dedupeScopes)[number]
/** @internal */
export const DedupeScope = Schema.Literal(...dedupeScopes)

/** A job to enqueue when this one dies. It cannot have a follow-up itself. */
export interface FollowUp {
  /** Kind of the job to enqueue. */
  readonly kind: string
  /** Version of the payload, from 1. */
  readonly version: number
  /** Queue that the follow-up waits in, unless `routed` is set and a route matches. */
  readonly queue: string
  /** Payload as it is stored: a JSON value of up to 1 MiB. */
  readonly payload: unknown
  /** Attempts before the follow-up is dead, counting the first. */
  readonly attempts: number
  /** Lower runs first, from -32768 to 32767. [0] */
  readonly priority?: number | undefined
  /** The kind names no queue: a matching route takes precedence over `queue`. Resolved when the job or batch is stored. */
  readonly routed?: boolean | undefined
}
/** @internal */
export const FollowUp: Schema.Schema<FollowUp> = Schema.Struct({
  kind: Schema.String,
  /** Version of the payload, from 1. */
  version: Schema.Int,
  /** Queue that the follow-up waits in, unless `routed` is set and a route matches. */
  queue: Schema.String,
  /** Payload as it is stored: a JSON value of up to 1 MiB. */
  payload: Schema.Unknown,
  /** Attempts before the follow-up is dead, counting the first. */
  attempts: Schema.Int,
  /** Lower runs first, from -32768 to 32767. [0] */
  priority: Schema.optional(Schema.Int),
  routed: Schema.optional(Schema.Boolean)
})

/**
 * The follow-up that is stored with a job, or a marker that the code of the job's kind computes the follow-up when the job
 * dies. Processes without that code can enqueue the job with the marker.
 */
export type OnDead = FollowUp | typeof computed
export const computed = "computed"

/** History entry of an attempt that ended in anything other than success. */
export interface HistoryEntry {
  /** Number of the attempt, from 1. */
  readonly attempt: number
  /** Id of the process that ran the attempt. */
  readonly pod: string
  /** When the attempt started. */
  readonly startedAt: number
  /** When the attempt ended. */
  readonly endedAt: number
  /** How the attempt ended, in words: `failed`, `exhausted`, `snoozed`, `throttled`, `crashed` and others. */
  readonly outcome: string
  /** Message of the error, if there was one. */
  readonly message?: string | undefined
}
/** @internal */
export const HistoryEntry: Schema.Schema<HistoryEntry> = Schema.Struct({
  attempt: Schema.Int,
  /** Id of the process that ran the attempt. */
  pod: Schema.String,
  /** When the attempt started. */
  startedAt: Schema.Number,
  /** When the attempt ended. */
  endedAt: Schema.Number,
  /** How the attempt ended, in words: `failed`, `exhausted`, `snoozed`, `throttled`, `crashed` and others. */
  outcome: Schema.String,
  /** Message of the error, if there was one. */
  message: Schema.optional(Schema.String)
})

/** Limits for all jobs, from every client. */
export const limits = {
  batch: 1000,
  payloadBytes: 1024 * 1024,
  /** Maximum nesting of arrays and objects in JSON. */
  nesting: 1000,
  resultBytes: 64 * 1024,
  heartbeatBytes: 4 * 1024,
  /** Maximum length of an error message, and of the stack trace that follows it. */
  errorCharacters: 4096,
  traceCharacters: 4096,
  historyEntries: 32,
  nameCharacters: 128,
  keyCharacters: 512,
  signalCharacters: 256,
  /** Values of one signal that an execution receives. `complete_deferred()` has the same number. */
  signalValues: 10_000,
  /** Maximum size of the values after the first, as JSON. `complete_deferred()` has the same number. */
  signalBytes: 16_777_216,
  /** Maximum size of a value that the code of an execution sets, as JSON, and the number of their names. */
  setBytes: 4096,
  setNames: 100,
  askIdCharacters: 128,
  attempts: 1000,
  /** A job with this many crashes is quarantined. */
  crashes: 5,
  /** Maximum delay of a job or a retry, and maximum length of a dedupe window. */
  waitDays: 36_500,
  priority: { min: -32_768, max: 32_767 }
} as const

/** Message in the history of a job that succeeded although its cancellation was requested. */
export const cancelledLate = "a cancel was requested too late: the handler succeeded"

/** A stored job with all its fields. Instants are epoch milliseconds. */
export interface StoredJob {
  /** UUID that the client generated, or the caller chose. */
  readonly id: JobId
  /** Queue that the job waits in. */
  readonly queue: string
  /** Name of the kind, which selects the handler. */
  readonly kind: string
  /** Version of the payload, from 1. Upcasters convert payloads of older versions. */
  readonly version: number
  /** Payload as it is stored, before upcasters and the schema. */
  readonly payload: unknown
  /** Key that limits or orders this job together with others. */
  readonly key: string | undefined
  /** Displayed state. A pending job that is not due is `scheduled`, or `retrying` if it has failed before. */
  readonly state: State
  /** Lower runs first, from -32768 to 32767. */
  readonly priority: number
  /** Earliest time at which the job, or its next attempt, starts. */
  readonly runAt: number
  /** Attempts that have started and count. 0 before the first. */
  readonly attempt: number
  /** Attempts before the job is dead, counting the first. */
  readonly attempts: number
  /** How often a process ended while it ran this job. The fifth crash makes the job dead. */
  readonly crashCount: number
  /** Dedupe key of the job and how long the job holds it. */
  readonly dedupe:
    | {
        /** Text that only one job can hold at a time. */
        readonly key: string
        /** `active`: held until the job ends. `retained`: held as long as its row exists. */
        readonly scope: DedupeScope
      }
    | undefined
  /** Id of the process that runs the job, or that completed it. Undefined in other states. */
  readonly pod: string | undefined
  /** When the job was stored. */
  readonly createdAt: number
  /** When the row last changed. */
  readonly updatedAt: number
  /** When the current or last attempt started. */
  readonly startedAt: number | undefined
  /** Last heartbeat of the process that runs the job. Undefined unless the job is running. */
  readonly heartbeatAt: number | undefined
  /** When the job became done, dead or cancelled. */
  readonly finishedAt: number | undefined
  /** When a running job was asked to stop. It becomes `cancelled` when it stops. */
  readonly cancelRequestedAt: number | undefined
  /** Job to enqueue if this one dies. */
  readonly onDead: FollowUp | undefined
  /** What the handler returned. Undefined until the job is done. */
  readonly result: unknown
  /** Last value that the handler reported with `progress`. */
  readonly progress: unknown
  /** Last error: its message and, in a `StoredJob`, its stack trace. Undefined once the job succeeds. */
  readonly lastError: string | undefined
  /** Last 32 attempts that did not succeed, oldest first. */
  readonly history: ReadonlyArray<HistoryEntry>
  /** Why the job is dead or cancelled. */
  readonly reason: DeadReason | undefined
  /** Object that was stored beside the payload. */
  readonly meta: unknown
  /** Id of the batch that the job belongs to. */
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
