import { Duration } from "effect"
import { type DurationInput, decode } from "./DurationText.js"

// How long a failed job waits before its next attempt. `attempt` is the number of the attempt that failed, from 1.

/** The wait after a failed attempt. `chance` is a number from 0 to 1 that decides the jitter. */
export type Backoff = (attempt: number, chance: number) => Duration.Duration

const steps = [Duration.seconds(30), Duration.minutes(2), Duration.minutes(10)]

/** Thirty seconds, two minutes, ten minutes, then an hour each time. */
export const ladder: Backoff = (attempt) => steps[attempt - 1] ?? Duration.hours(1)

/** A ladder of one's own; its last step repeats. */
export const stepwise = (first: DurationInput, ...more: ReadonlyArray<DurationInput>): Backoff => {
  const all = [first, ...more].map((step) => decode(step))
  return (attempt) => all[Math.min(attempt, all.length) - 1] ?? decode(first)
}

/** The same wait every time. */
export const fixed = (wait: DurationInput): Backoff => {
  const decoded = decode(wait)
  return () => decoded
}

/**
 * Doubles from `base` up to `max`. Jitter spreads each wait by a tenth either way, and never beyond `max`, so that a crowd does
 * not return at once.
 */
export const exponential = (options: {
  readonly base: DurationInput
  readonly max: DurationInput
  readonly jitter?: boolean
}): Backoff => {
  const base = Duration.toMillis(decode(options.base))
  const max = Duration.toMillis(decode(options.max))
  return (attempt, chance) => {
    const wait = Math.min(max, base * 2 ** Math.min(attempt - 1, 30))
    const shortest = 0.9 * wait
    const longest = Math.min(max, 1.1 * wait)
    return Duration.millis(Math.round(options.jitter === false ? wait : shortest + (longest - shortest) * chance))
  }
}
