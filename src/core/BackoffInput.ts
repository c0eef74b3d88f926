import type { DurationInput } from "./DurationInput.js"

/** How much delays vary at random: a share from 0 to 1 in either direction, or whether they do, by 0.1. */
export type Jitter = number | boolean

/** Delay before a retry: fixed, a list of delays, or doubling from `base` up to `max`. */
export type BackoffInput =
  | DurationInput
  | readonly [DurationInput, ...ReadonlyArray<DurationInput>]
  | {
      /** Delay after the first failed attempt. Each further failure doubles it. */
      readonly base: DurationInput
      /** Longest delay, including its jitter. */
      readonly max: DurationInput
      /** Random share by which each delay varies, from 0 to 1. `true` is 0.1, `false` is 0. [`true`] */
      readonly jitter?: Jitter | undefined
    }
