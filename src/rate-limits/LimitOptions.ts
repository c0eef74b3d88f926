import type { DurationInput } from "../core/DurationInput.js"

// Types without Effect: programs that use promises see them.

/** A token bucket: maximum number of tokens, and tokens added per second. */
export interface Limit {
  /** Most tokens that the bucket holds: the burst that is allowed. */
  readonly capacity: number
  /** Tokens added per second. */
  readonly rate: number
}

export interface DeclaredLimit extends Limit {
  /** Name of the limit, which all processes share. */
  readonly scope: string
}

/** Size and refill rate of a token bucket. */
export interface RateLimitOptions {
  /** Maximum number of tokens: the burst that the upstream tolerates. */
  readonly capacity: number
  /** Tokens added per second, or `{ tokens: 5000, per: "1 hour" }`. */
  readonly rate:
    | number
    | {
        /** Tokens added in each period. */
        readonly tokens: number
        /** Length of the period. */
        readonly per: DurationInput
      }
  /** Extra tokens that a process may reserve for its next calls. Tokens not used within a second are lost. [0] */
  readonly ahead?: number
  /** What pauses when the bucket is empty. [job] */
  readonly throttles?: "queue" | "key" | "job"
}

/** How long to wait for tokens. */
export interface TakeOptions {
  /** How long to wait for tokens before the attempt ends as throttled. [does not wait] */
  readonly timeout?: DurationInput
}

/** A rate limit as plain data: the worker that takes its tokens may not be of the copy that declared it. */
export interface DeclaredRateLimit extends DeclaredLimit, Required<Pick<RateLimitOptions, "ahead" | "throttles">> {}
