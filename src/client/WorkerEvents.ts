import { Effect } from "effect"
import * as ErrorText from "../core/ErrorText.js"
import type { DeadReason } from "../core/StoredJob.js"
import type { WrittenEnd } from "../worker/slots/JobMetrics.js"
import type { Engine } from "./Engine.js"
import { errorOf } from "./JobView.js"

// Events of the jobs that one worker runs. They are reported after the end of an attempt is stored, so they are never about
// something that did not happen; if the process dies in between, there is no event.

interface AttemptFacts {
  /** UUID of the job, which is the same for all its attempts. */
  readonly id: string
  /** Name of the job's kind. */
  readonly kind: string
  /** Queue that the job was claimed from. */
  readonly queue: string
  /** Key that limits or orders the job together with others. */
  readonly key: string | undefined
  /** Number of the attempt that ended, from 1. */
  readonly attempt: number
  /** Attempts before the job is dead, counting the first. */
  readonly attempts: number
  /** Object that was stored beside the payload. */
  readonly meta: unknown
  /** How long the attempt ran, in milliseconds. Absent if it did not start. */
  readonly took: number | undefined
}

interface FailureFacts {
  /** Message of what the handler threw. Undefined if the attempt failed without an error. */
  readonly error: string | undefined
  /** Where it was thrown, and its causes. */
  readonly stack: string | undefined
}

/** What happened to a job in this worker. */
export type WorkerEvent =
  | (AttemptFacts & {
      /** The job is done. */
      readonly type: "completed"
      /** What the handler returned, as it is stored. */
      readonly result: unknown
    })
  | (AttemptFacts &
      FailureFacts & {
        /** An attempt failed, and the job is tried again. */
        readonly type: "failed"
        /** Earliest start of the next attempt. */
        readonly retryAt: Date
      })
  | (AttemptFacts &
      FailureFacts & {
        /** The job failed for good. */
        readonly type: "dead"
        /** Why the job is dead, such as `exhausted` or `rejected`. */
        readonly reason: Exclude<DeadReason, "cancelled">
      })
  | (AttemptFacts & {
      /** The job was cancelled and has stopped. */
      readonly type: "cancelled"
    })

/** Gets the events of a worker. What it throws is logged and has no other effect. */
export type OnEvent = (event: WorkerEvent) => unknown

/** The event of an end. Nothing if the attempt was neither a success nor a failure: snoozed, throttled, returned. */
const eventOf = ({ became, end, job, reason, took }: WrittenEnd): WorkerEvent | undefined => {
  const { attempt, id, key, kind, attempts, meta, queue } = job
  const facts: AttemptFacts = { id, kind, queue, key, attempt, attempts, meta, took }
  if (became === "done") {
    const result = end._tag === "Done" && end.result !== undefined ? JSON.parse(end.result) : undefined
    return { ...facts, type: "completed", result }
  }
  if (became === "dead" && (reason === undefined || reason === "cancelled")) return { ...facts, type: "cancelled" }
  if (end._tag === "Done" || end._tag === "Suspended") return undefined
  const { message, trace } = errorOf(end.error)
  const failure: FailureFacts = { error: message, stack: trace }
  if (became === "dead") {
    return { ...facts, ...failure, type: "dead", reason: reason as Exclude<DeadReason, "cancelled"> }
  }
  if (end._tag !== "Again" || !end.counted || end.error === undefined) return undefined
  return { ...facts, ...failure, type: "failed", retryAt: new Date(end.runAt) }
}

/** Errors of a hook are logged at most once in this time, in milliseconds. */
const logInterval = 60_000

/** Passes events to the hook. @internal */
export const reporting = <R>({ clock, run }: Pick<Engine<R>, "clock" | "run">, onEvent: OnEvent) => {
  let loggedAt = Number.NEGATIVE_INFINITY
  const failed = (error: unknown): void => {
    const now = clock.unsafeCurrentTimeMillis()
    if (now - loggedAt < logInterval) return
    loggedAt = now
    const text = ErrorText.ofFailure(error)
    // The shift may be closed already.
    run(Effect.logWarning(`onEvent of a worker threw, which has no effect on the job: ${text}`)).catch(() => {})
  }
  return (written: WrittenEnd): void => {
    const event = eventOf(written)
    // In a microtask, so that the hook cannot hold up the results of other jobs in the same statement.
    if (event !== undefined) Promise.resolve(event).then(onEvent).catch(failed)
  }
}
