// Types only, without Effect: programs that use promises see them.

type Unit = "ms" | "s" | "m" | "h" | "d"

type Words =
  | "nano"
  | "nanos"
  | "micro"
  | "micros"
  | "milli"
  | "millis"
  | "second"
  | "seconds"
  | "minute"
  | "minutes"
  | "hour"
  | "hours"
  | "day"
  | "days"
  | "week"
  | "weeks"

/** A duration of a library, such as Effect's `Duration`. */
export interface DurationValue {
  /** Its length: milliseconds, nanoseconds or forever. */
  readonly value:
    | { readonly _tag: "Millis"; readonly millis: number }
    | { readonly _tag: "Nanos"; readonly nanos: bigint }
    | { readonly _tag: "Infinity" }
}

/** A duration in code: milliseconds, text like `"30s"`, `"5m"`, `"1h30m"` or `"10 minutes"`, or Effect's `Duration`. */
export type DurationInput =
  | `${number}${Unit}`
  | `${number}d${number}h`
  | `${number}d${number}h${number}m`
  | `${number}h${number}m`
  | `${number}h${number}m${number}s`
  | `${number}m${number}s`
  | `${number}s${number}ms`
  | `${number} ${Words}`
  | number
  /** Nanoseconds. */
  | bigint
  | readonly [seconds: number, nanos: number]
  | DurationValue
