import type { DurationInput } from "../core/DurationInput.js"
import type { DeclaredRateLimit, TakeOptions } from "../rate-limits/LimitOptions.js"

// Types without Effect: programs that use promises see them.

/** Logs a message with fields. The line also has the job's id, kind, queue and attempt. An Error in `error` is logged with its stack. */
export type LogLine = (message: string, fields?: Readonly<Record<string, unknown>>) => void

/** The log of one attempt. Every line carries the job's id, kind, queue and attempt, and goes where the lines of the worker go. */
export interface HandlerLog {
  /** Logs at level debug, which `LOG_LEVEL` hides by default. */
  readonly debug: LogLine
  /** Logs at level info. */
  readonly info: LogLine
  /** Logs at level warning. */
  readonly warn: LogLine
  /** Logs at level error. Does not fail the attempt: throw to do that. */
  readonly error: LogLine
}

/** The job as passed to an async function. */
export interface PromiseContext<Id extends string = string> {
  /** UUID of the job. The same in every attempt, so it can serve as an idempotency key. */
  readonly id: Id
  /** Name of the job's kind. */
  readonly kind: string
  /** Queue that the job was claimed from. */
  readonly queue: string
  /** Key that limits or orders this job together with others. */
  readonly key: string | undefined
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /** Attempts before the job is dead, counting the first. */
  readonly attempts: number
  /** Object that was stored beside the payload. Undefined if there is none. */
  readonly meta: unknown
  /** Aborted when the job is cancelled, times out or loses its lease, or the process stops. */
  readonly signal: AbortSignal
  /** Stores how far the job is, for its page and for `shift.job`. */
  readonly progress: (value: unknown) => Promise<void>
  /** The current time, which is virtual in tests; the time of JavaScript's `Date` never is. */
  readonly now: () => Date
  /** Logs with the job's id, kind, queue and attempt: `log.info("charged", { order: 7 })`. */
  readonly log: HandlerLog
  /**
   * Takes tokens [1] from a rate limit. If there are too few, throws an outcome that ends the attempt as throttled; do
   * not catch it.
   */
  readonly acquire: (limit: DeclaredRateLimit, tokens?: number, options?: TakeOptions) => Promise<void>
  /**
   * Reports that the upstream throttled us: empties the limit for `duration` and throws an outcome that ends the
   * attempt as throttled.
   */
  readonly refused: (limit: DeclaredRateLimit, duration?: DurationInput) => Promise<never>
}
