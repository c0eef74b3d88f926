import { Duration, type Schema } from "effect"
import type { Backoff } from "./Backoff.js"
import { type DurationInput, decode } from "./DurationText.js"

/** What sort of job: its payload, and how jobs of it are to be treated. A value, without a handler in it. */
export interface Kind<in out A> {
  readonly name: string
  readonly queue: string
  /** Nobody said a queue: the routes that pods declared decide, and `queue` is where it goes when none has a say. */
  readonly routed: boolean
  /** The payload as it is written now. */
  readonly payload: Schema.Schema<A, unknown>
  readonly version: number
  /** From a version to the next: `1` takes a payload of version 1 and gives one of version 2. */
  readonly upcasters: Readonly<Record<number, (payload: unknown) => unknown>>
  readonly maxAttempts: number
  readonly timeout: Duration.Duration
  /** Absent: the queue's, else the ladder. */
  readonly backoff: Backoff | undefined
  readonly priority: number
}

export interface KindOptions<A, I> {
  readonly payload: Schema.Schema<A, I>
  /** Where jobs of this kind go when nobody says otherwise. [by the declared routes, else default] */
  readonly queue?: string
  /** How often a job is tried before it is dead. [5] */
  readonly maxAttempts?: number
  /** How long one attempt may take. [15 minutes] */
  readonly timeout?: DurationInput
  readonly backoff?: Backoff
  /** Lower goes first. [0] */
  readonly priority?: number
  /** The version of the payload schema. Raise it with every change that old payloads do not decode with. [1] */
  readonly version?: number
  readonly upcasters?: Readonly<Record<number, (payload: unknown) => unknown>>
}

export const defaults = { queue: "default", maxAttempts: 5, timeout: Duration.minutes(15) }

export const make = <A, I>(name: string, options: KindOptions<A, I>): Kind<A> => ({
  name,
  queue: options.queue ?? defaults.queue,
  routed: options.queue === undefined,
  // What is stored is JSON, of which nothing is known until it decodes.
  payload: options.payload as Schema.Schema<A, unknown>,
  version: options.version ?? 1,
  upcasters: options.upcasters ?? {},
  maxAttempts: options.maxAttempts ?? defaults.maxAttempts,
  timeout: decode(options.timeout ?? defaults.timeout),
  backoff: options.backoff,
  priority: options.priority ?? 0
})
