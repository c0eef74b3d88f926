import { type Data, type Duration, Predicate } from "effect"
import { type DurationInput, decode } from "./DurationText.js"

/** How an attempt ended, as a value that a handler returns, or fails with to end at once. */
export type Outcome = Data.TaggedEnum<{
  /** The work is done; the result is kept with the job. */
  Done: { readonly result?: unknown }
  /** It failed and may succeed later: after the given time, or after the kind's backoff. Counts an attempt. */
  Retry: { readonly error: string; readonly after?: Duration.Duration }
  /** It failed and never will succeed. */
  Dead: { readonly error: string }
  /**
   * Somebody upstream asked for a pause, of all the queue's jobs, of those that share this one's key, or of this job alone.
   * Gives the attempt back.
   */
  Throttled: {
    readonly after?: Duration.Duration
    readonly scope: "queue" | "key" | "job"
    /** The limit that had no token, where it was one of ours. */
    readonly by?: string
  }
  /** Not yet. Gives the attempt back. */
  Snooze: { readonly after: Duration.Duration }
  /** The work was asked to stop and did. */
  Cancelled: {}
}>

/** Somebody upstream asked for a pause, as a value that can also be failed with or thrown. */
export type Throttled = Extract<Outcome, { readonly _tag: "Throttled" }>

/** Tells an outcome from a result that happens to look like one. */
const mark = Symbol.for("nightshift/core/Outcome")

const marked = <A extends Outcome>(outcome: A): A =>
  Object.defineProperty(outcome, mark, { value: true, enumerable: false })

export const done = (result?: unknown): Outcome => marked({ _tag: "Done", ...(result === undefined ? {} : { result }) })
export const retry = (error: string, after?: DurationInput): Outcome =>
  marked({ _tag: "Retry", error, ...(after === undefined ? {} : { after: decode(after) }) })
export const dead = (error: string): Outcome => marked({ _tag: "Dead", error })
export const throttled = ({
  after,
  ...options
}: {
  readonly after?: DurationInput
  readonly scope?: "queue" | "key" | "job"
  readonly by?: string
} = {}): Throttled =>
  marked<Throttled>({
    _tag: "Throttled",
    scope: "queue",
    ...options,
    ...(after === undefined ? {} : { after: decode(after) })
  })
export const snooze = (after: DurationInput): Outcome => marked({ _tag: "Snooze", after: decode(after) })
export const cancelled: Outcome = marked({ _tag: "Cancelled" })

/** Whether a handler's answer says how the attempt ended, or is simply its result. */
export const isOutcome = (value: unknown): value is Outcome => Predicate.hasProperty(value, mark)

const byLimit = "throttled by "

/** What a job's history calls a throttled attempt. */
export const throttledWords = (by: string | undefined): string => (by === undefined ? "throttled" : `${byLimit}${by}`)

/** The limit that such words name. */
export const throttledBy = (words: string): string | undefined =>
  words.startsWith(byLimit) ? words.slice(byLimit.length) : undefined
