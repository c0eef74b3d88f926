import { InvalidOptionError } from "../client/ShiftErrors.js"
import type { Codec } from "../codec/Codec.js"
import type { DurationInput } from "../core/DurationInput.js"
import { shown } from "../core/Storable.js"
import type { DeclaredQueues, DeclaredRoutes } from "../queue/settings/QueueLimits.js"
import type { DeclaredLimit } from "../rate-limits/LimitOptions.js"
import type { Schedule } from "../schedule/ScheduleSettings.js"

/** Options of a test, with Effect and with promises. */
export interface TestOptions<Start> {
  /** Queues the process serves: names, or an object with their workers and limits. [the queues of the handlers' kinds] */
  readonly queues?: DeclaredQueues
  /** Queue by kind prefix, for kinds without a queue. */
  readonly routes?: DeclaredRoutes
  /** Schedules; they fire as the clock advances. */
  readonly schedules?: ReadonlyArray<Schedule>
  /** Rate limits that the handlers use. */
  readonly limits?: ReadonlyArray<DeclaredLimit>
  /** Number of jobs of a queue that run at a time. [10] */
  readonly slots?: number
  /** How long a stopped process waits for running jobs. [25 seconds] */
  readonly grace?: DurationInput
  /** Start time of the clock. [1970-01-01T00:00:00Z] */
  readonly startAt?: Start
  /** Seed of ids, jitter and Effect's Random. The same test with the same seed has the same history. [1] */
  readonly seed?: number
  /** Retention of done jobs. [all jobs are kept] */
  readonly retention?: DurationInput
  /** Payload fields to mask in errors, as in NIGHTSHIFT_MASK. */
  readonly mask?: ReadonlyArray<string>
  /** Seals payloads, results and other values before they are stored: `seal({ keys })` of `nightshift/codec`. [none] */
  readonly codec?: Codec
  /**
   * Whether the code of a workflow may differ from the journal of an execution. Without it, the test fails if it does. Each
   * finished execution of a workflow with promises is replayed once to find out. Set it in tests that change the code. [false]
   */
  readonly allowChanged?: boolean
}

/** Throws InvalidOptionError for values with which a test would wait forever or have no seed. */
export const checkValues = ({ mask = [], seed = 1, slots = 1 }: TestOptions<unknown>): void => {
  const refuse = (option: string, expected: string, value: unknown) => {
    throw new InvalidOptionError(option, `${option} must be ${expected}, got ${shown(value)}.`)
  }
  if (!Number.isInteger(slots) || slots < 1) refuse("slots", "a whole number of at least 1", slots)
  if (!Number.isFinite(seed)) refuse("seed", "a number", seed)
  if (!Array.isArray(mask)) refuse("mask", "a list of names of fields", mask)
}
