import { Duration } from "effect"
import type { Jitter } from "./BackoffInput.js"
import { type DurationInput, decode } from "./DurationText.js"

/**
 * Returns the delay before the next attempt. `attempt` is the number of the failed attempt, starting at 1; `chance` is
 * a random number from 0 to 1 that sets the jitter.
 */
export type Backoff = (attempt: number, chance: number) => Duration.Duration

const steps = [Duration.seconds(30), Duration.minutes(2), Duration.minutes(10)]

/** The default backoff: 30 seconds, 2 minutes, 10 minutes, then 1 hour after every further failure. */
export const ladder: Backoff = (attempt) => steps[attempt - 1] ?? Duration.hours(1)

/** A custom list of delays. The last delay repeats. */
export const stepwise = (first: DurationInput, ...more: ReadonlyArray<DurationInput>): Backoff => {
  const all = [first, ...more].map((step) => decode(step))
  return (attempt) => all[Math.min(attempt, all.length) - 1] ?? decode(first)
}

/** The same delay after every failed attempt. */
export const fixed = (wait: DurationInput): Backoff => {
  const decoded = decode(wait)
  return () => decoded
}

export type { Jitter }

const shareOf = (jitter: Jitter): number => {
  if (typeof jitter === "boolean") return jitter ? 0.1 : 0
  if (jitter >= 0 && jitter <= 1) return jitter
  throw new RangeError(`jitter must be a number from 0 to 1, or a boolean, got ${jitter}.`)
}

/** Varies the delays of a backoff, so that jobs that failed together do not retry together. */
export const jittered = (backoff: Backoff, jitter: Jitter): Backoff => {
  const share = shareOf(jitter)
  if (share === 0) return backoff
  return (attempt, chance) => {
    const wait = Duration.toMillis(backoff(attempt, chance))
    return Duration.millis(Math.round(wait * (1 - share + 2 * share * chance)))
  }
}

/**
 * Exponential backoff: doubles from `base` up to `max`. Jitter varies each delay by up to 10 % in either direction,
 * capped at `max`, so that jobs that failed together do not retry together.
 */
export const exponential = (options: {
  /** Delay after the first failed attempt. Each further failure doubles it. */
  readonly base: DurationInput
  /** Longest delay, including its jitter. */
  readonly max: DurationInput
  /** Random share by which each delay varies, from 0 to 1. `true` is 0.1, `false` is 0. [`true`] */
  readonly jitter?: Jitter | undefined
}): Backoff => {
  const share = shareOf(options.jitter ?? true)
  const base = Duration.toMillis(decode(options.base))
  const max = Duration.toMillis(decode(options.max))
  return (attempt, chance) => {
    const wait = Math.min(max, base * 2 ** Math.min(attempt - 1, 30))
    const shortest = (1 - share) * wait
    const longest = Math.min(max, (1 + share) * wait)
    return Duration.millis(Math.round(shortest + (longest - shortest) * chance))
  }
}
