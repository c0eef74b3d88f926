import { Predicate } from "effect"

// A run of a workflow execution that waits ends with a suspension: not a result and not a failure. The job returns to the
// queue without a slot, a connection or a timer in any process, and becomes due at the earliest of its waits.

/**
 * What an execution waits for. `message`: `step.next`, which waits for the next value of a signal; the rows of the values are
 * `signal`, for the first one, and `value`. `answer`: an ask that its code answers; the rows of asks are `ask`.
 */
export type WaitKind =
  | "signal"
  | "value"
  | "message"
  | "sleep"
  | "retry"
  | "children"
  | "limit"
  | "changed"
  | "ask"
  | "answer"

export interface Wait {
  readonly kind: WaitKind
  readonly name: string
  /**
   * Epoch milliseconds: the end of a sleep, or the timeout of a signal. The first value that is stored stays, except for a
   * retry, a limit, and changed code.
   */
  readonly dueAt?: number | undefined
  /** The limit that a step waits for. */
  readonly limit?: string | undefined
}

/** The start of a new journal: the payload as JSON text, and the version of its schema. */
export interface Continuation {
  readonly payload: string
  readonly version: number
}

export interface Suspension {
  /** The value of `woken` that the run saw when it read its waits. If it has changed since, the job is due at once. */
  readonly woken: number
  readonly waits: ReadonlyArray<Wait>
  /** Whether every step that an earlier run may have begun has a result. */
  readonly caughtUp?: boolean | undefined
  /** Shown as the job's error, for a suspension that needs an operator. */
  readonly error?: string | undefined
  /** How the code differs from the journal, if that is why the execution waits. Not stored. */
  readonly changed?: string | undefined
  /** The execution does not wait: it goes on with a new journal. */
  readonly continues?: Continuation | undefined
}

/** `run_at` of an execution that waits for no instant: the last millisecond that a job can have. */
export const never = 253_402_300_799_999

const mark = Symbol.for("nightshift/core/Suspension")

/** Makes the result of a handler whose execution waits. */
export const make = (suspension: Suspension): Suspension =>
  Object.defineProperty({ ...suspension }, mark, { value: true, enumerable: false })

export const isSuspension = (value: unknown): value is Suspension => Predicate.hasProperty(value, mark)

/** When the earliest wait ends. */
export const runAtOf = ({ waits }: Suspension): number =>
  waits.reduce((first, { dueAt = never }) => Math.min(first, dueAt), never)
