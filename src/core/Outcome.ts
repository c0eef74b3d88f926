import { type Data, type Duration, Predicate } from "effect"
import { type DurationInput, decode } from "./DurationText.js"

/** The result of an attempt. A handler returns it, or fails with it to stop early. */
export type Outcome = Data.TaggedEnum<{
  /** The job succeeded. The result is stored with the job. */
  Done: { readonly result?: unknown }
  /** The attempt failed. The job is retried after `after`, or after the backoff delay. Uses up an attempt. */
  Retry: { readonly error: string; readonly after?: Duration.Duration }
  /** The job failed permanently and is not retried. */
  Dead: { readonly error: string; readonly reason?: "not_undone" }
  /**
   * An upstream service asked for a pause. `scope` selects what pauses: the whole queue, the jobs with the same key, or
   * only this job. Does not use up an attempt.
   */
  Throttled: {
    readonly after?: Duration.Duration
    readonly scope: "queue" | "key" | "job"
    /** Name of the Nightshift rate limit that had no token left, if one caused the pause. */
    readonly by?: string
  }
  /** Runs the job again after a delay. Does not use up an attempt. */
  Snooze: { readonly after: Duration.Duration }
  /** The handler stopped because the job was cancelled. */
  Cancelled: {}
}>

/** A throttled outcome. Handlers can also fail with it or throw it. */
export type Throttled = Extract<Outcome, { readonly _tag: "Throttled" }>

/** Distinguishes an outcome from a handler result that has the same shape. */
const mark = Symbol.for("nightshift/core/Outcome")

const marked = <A extends Outcome>(outcome: A): A =>
  Object.defineProperty(outcome, mark, { value: true, enumerable: false })

export const done = (result?: unknown): Outcome => marked({ _tag: "Done", ...(result === undefined ? {} : { result }) })
export const retry = (error: string, after?: DurationInput): Outcome =>
  marked({ _tag: "Retry", error, ...(after === undefined ? {} : { after: decode(after) }) })
export const dead = (error: string): Outcome => marked({ _tag: "Dead", error })
/** A workflow execution ended, but steps that it should have undone are not undone. */
export const notUndone = (error: string): Outcome => marked({ _tag: "Dead", error, reason: "not_undone" })
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

/** Whether a handler returned an outcome rather than a plain result. */
export const isOutcome = (value: unknown): value is Outcome => Predicate.hasProperty(value, mark)

const byLimit = "throttled by "

/** The text that a job's history shows for a throttled attempt. */
export const throttledWords = (by: string | undefined): string => (by === undefined ? "throttled" : `${byLimit}${by}`)

/** Returns the limit named in a text from `throttledWords`. */
export const throttledBy = (words: string): string | undefined =>
  words.startsWith(byLimit) ? words.slice(byLimit.length) : undefined
