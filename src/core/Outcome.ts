import { Data, type Duration } from "effect"

/** How an attempt ended, as a value that a handler returns. */
export type Outcome = Data.TaggedEnum<{
  /** The work is done; the result is kept with the job. */
  Done: { readonly result?: unknown }
  /** It failed and may succeed later: after the given time, or after the kind's backoff. Counts an attempt. */
  Retry: { readonly error: string; readonly after?: Duration.Duration }
  /** It failed and never will succeed. */
  Dead: { readonly error: string }
  /** Somebody upstream asked for a pause. Gives the attempt back and cools down the whole queue, the key, or this job. */
  Throttled: { readonly after?: Duration.Duration; readonly scope: "queue" | "key" | "job" }
  /** Not yet. Gives the attempt back. */
  Snooze: { readonly after: Duration.Duration }
  /** The work was asked to stop and did. */
  Cancelled: {}
}>

const constructors = Data.taggedEnum<Outcome>()

export const done = (result?: unknown): Outcome => constructors.Done(result === undefined ? {} : { result })
export const retry = (error: string, after?: Duration.Duration): Outcome =>
  constructors.Retry(after === undefined ? { error } : { error, after })
export const dead = (error: string): Outcome => constructors.Dead({ error })
export const throttled = (
  options: { readonly after?: Duration.Duration; readonly scope?: "queue" | "key" | "job" } = {}
): Outcome => constructors.Throttled({ scope: "queue", ...options })
export const snooze = (after: Duration.Duration): Outcome => constructors.Snooze({ after })
export const cancelled: Outcome = constructors.Cancelled()

const tags = new Set(["Done", "Retry", "Dead", "Throttled", "Snooze", "Cancelled"])

/** Whether a handler's answer says how the attempt ended, or is simply its result. */
export const isOutcome = (value: unknown): value is Outcome =>
  typeof value === "object" &&
  value !== null &&
  "_tag" in value &&
  typeof value._tag === "string" &&
  tags.has(value._tag) &&
  Object.getPrototypeOf(value) === Object.getPrototypeOf(cancelled)
