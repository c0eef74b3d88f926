import type { DurationInput } from "./DurationInput.js"
import { millisOf } from "./DurationMillis.js"

// Plain data, because a handler may be made by another copy of this module than the one that runs it. Without Effect: programs
// that use promises see the declarations, and functions load the code.

/** The result of an attempt. A handler returns it, or fails with it to stop early. */
export type Outcome =
  /** The job succeeded. The result is stored with the job. */
  | {
      /** Distinguishes the outcomes. */
      readonly _tag: "Done"
      /** Value that is stored as the job's result, up to 64 KiB of JSON. [no result] */
      readonly result?: unknown
    }
  /** The attempt failed. The job is retried after `after`, or after the backoff delay. Uses up an attempt. */
  | {
      /** Distinguishes the outcomes. */
      readonly _tag: "Retry"
      /** Message that is stored as the job's last error. */
      readonly error: string
      /** Delay before the next attempt, in milliseconds. [the backoff of the kind or queue] */
      readonly after?: number
    }
  /** The job failed permanently and is not retried. */
  | {
      /** Distinguishes the outcomes. */
      readonly _tag: "Dead"
      /** Message that is stored as the job's last error. */
      readonly error: string
      /** Set if steps of a workflow that should be undone are not. [`rejected`] */
      readonly reason?: "not_undone"
    }
  /**
   * An upstream service asked for a pause. `scope` selects what pauses: the whole queue, the jobs with the same key, or
   * only this job. Does not use up an attempt.
   */
  | {
      /** Distinguishes the outcomes. */
      readonly _tag: "Throttled"
      /** Length of the pause, in milliseconds. [60s, or the queue's own backoff for the scopes `queue` and `key`] */
      readonly after?: number
      /** What pauses: the whole queue, the jobs with the same key, or only this job. */
      readonly scope: "queue" | "key" | "job"
      /** Name of the Nightshift rate limit that had no token left, if one caused the pause. */
      readonly by?: string
    }
  /** Runs the job again after a delay. Does not use up an attempt. */
  | {
      /** Distinguishes the outcomes. */
      readonly _tag: "Snooze"
      /** Delay before the job runs again, in milliseconds. */
      readonly after: number
    }
  /** The handler stopped because the job was cancelled. */
  | {
      /** Distinguishes the outcomes. */
      readonly _tag: "Cancelled"
    }

/** A throttled outcome. Handlers can also fail with it or throw it. */
export type Throttled = Extract<Outcome, Record<"_tag", "Throttled">>

/** Distinguishes an outcome from a handler result that has the same shape. */
const mark = Symbol.for("nightshift/core/Outcome")

const marked = <A extends Outcome>(outcome: A): A =>
  Object.defineProperty(outcome, mark, { value: true, enumerable: false })

/** Ends the job with this result. A handler that returns a plain value does the same. */
export const done = (result?: unknown): Outcome => marked({ _tag: "Done", ...(result === undefined ? {} : { result }) })
/** Fails the attempt. The job runs again after `after`, or after the backoff; it is dead after its last attempt. */
export const retry = (error: string, after?: DurationInput): Outcome =>
  marked({ _tag: "Retry", error, ...(after === undefined ? {} : { after: millisOf(after) }) })
/** Fails the job permanently: it is dead with the reason `rejected`, and its follow-up is enqueued. */
export const dead = (error: string): Outcome => marked({ _tag: "Dead", error })
/** A workflow execution ended, but steps that it should have undone are not undone. */
export const notUndone = (error: string): Outcome => marked({ _tag: "Dead", error, reason: "not_undone" })
/** Pauses the queue, the key or the job because an upstream service asked for it. Uses up no attempt. */
export const throttled = ({
  after,
  ...options
}: {
  /** Length of the pause. [60s, or the queue's own backoff for the scopes `queue` and `key`] */
  readonly after?: DurationInput
  /** What pauses: the whole queue, the jobs with the same key, or only this job. [`queue`] */
  readonly scope?: "queue" | "key" | "job"
  /** Name of the rate limit that had no token left. Shown in the job's history. [none] */
  readonly by?: string
} = {}): Throttled =>
  marked<Throttled>({
    _tag: "Throttled",
    scope: "queue",
    ...options,
    ...(after === undefined ? {} : { after: millisOf(after) })
  })
/** Runs the job again after a delay. Uses up no attempt. */
export const snooze = (after: DurationInput): Outcome => marked({ _tag: "Snooze", after: millisOf(after) })
/** Ends the job as cancelled. For handlers that stop early after their abort signal. */
export const cancelled: Outcome = marked({ _tag: "Cancelled" })

/** Whether a handler returned an outcome rather than a plain result. */
export const isOutcome = (value: unknown): value is Outcome =>
  ((typeof value === "object" && value !== null) || typeof value === "function") && mark in value

const byLimit = "throttled by "

/** The text that a job's history shows for a throttled attempt. */
export const throttledWords = (by: string | undefined): string => (by === undefined ? "throttled" : `${byLimit}${by}`)

/** Returns the limit named in a text from `throttledWords`. */
export const throttledBy = (words: string): string | undefined =>
  words.startsWith(byLimit) ? words.slice(byLimit.length) : undefined
