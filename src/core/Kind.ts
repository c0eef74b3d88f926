import { Duration, identity, type Schema } from "effect"
import type { Backoff } from "./Backoff.js"
import { type DurationInput, decode } from "./DurationText.js"

/**
 * A kind of job: its payload schema and the default options of its jobs. Contains no handler, so clients can import it.
 */
export interface Kind<in out A> {
  /** Name that is stored with every job and selects its handler. */
  readonly name: string
  /** Queue of jobs that name none. A matching route takes precedence if `routed` is set. [`default`] */
  readonly queue: string
  /**
   * True when the kind specifies no queue. Jobs then follow the routes that processes declared; `queue` is the fallback when
   * no route matches.
   */
  readonly routed: boolean
  /** Schema of the current payload version. */
  readonly payload: Schema.Schema<A, unknown>
  /** Current version of the payload. Older stored payloads pass through the upcasters. [1] */
  readonly version: number
  /** Functions that upgrade a payload by one version: `1` takes a payload of version 1 and returns one of version 2. */
  readonly upcasters: Readonly<Record<number, (payload: unknown) => unknown>>
  /** Attempts before a job is dead, counting the first. [5] */
  readonly attempts: number
  /** Time limit of one attempt. Then the attempt fails. [15 minutes] */
  readonly timeout: Duration.Duration
  /** Delay after each failed attempt. Undefined means the queue's backoff, else `Backoff.ladder`. */
  readonly backoff: Backoff | undefined
  /** Lower runs first, from -32768 to 32767. [0] */
  readonly priority: number
}

export interface KindOptions<A, I> {
  /** Schema of the payload. Encodes it at enqueue and decodes it before the handler. */
  readonly payload: Schema.Schema<A, I>
  /** Queue for jobs of this kind. Can be overridden per job. [the declared routes, then `default`] */
  readonly queue?: string | undefined
  /** Number of attempts before a job is dead. [5] */
  readonly attempts?: number | undefined
  /** Time limit of one attempt. [15 minutes] */
  readonly timeout?: DurationInput | undefined
  /** Delay after each failed attempt. [the queue's backoff, else `Backoff.ladder`] */
  readonly backoff?: Backoff | undefined
  /** Lower values run first. [0] */
  readonly priority?: number | undefined
  /** Version of the payload schema. Increase it with every change that breaks decoding of stored payloads. [1] */
  readonly version?: number | undefined
  /** Functions that upgrade a stored payload by one version: `1` takes version 1 and returns version 2. [none] */
  readonly upcasters?: Readonly<Record<number, (payload: unknown) => unknown>> | undefined
}

/**
 * The upcasters of a workflow. A version without an upcaster keeps its payload: the version of a workflow is also raised
 * when only its code changes, and the payloads of executions in flight then stay valid.
 */
export const withIdentity = ({
  upcasters = {},
  version = 1
}: Pick<KindOptions<never, never>, "version" | "upcasters">): NonNullable<KindOptions<never, never>["upcasters"]> => {
  const identities = Array.from({ length: Math.max(0, version - 1) }, (_, index) => [index + 1, identity<unknown>])
  return { ...Object.fromEntries(identities), ...upcasters }
}

export const defaults = { queue: "default", attempts: 5, timeout: Duration.minutes(15) }

export const make = <A, I>(name: string, options: KindOptions<A, I>): Kind<A> => ({
  name,
  queue: options.queue ?? defaults.queue,
  routed: options.queue === undefined,
  // Stored payloads are unvalidated JSON, so the encoded side of the schema is `unknown`.
  payload: options.payload as Schema.Schema<A, unknown>,
  version: options.version ?? 1,
  upcasters: options.upcasters ?? {},
  attempts: options.attempts ?? defaults.attempts,
  timeout: decode(options.timeout ?? defaults.timeout),
  backoff: options.backoff,
  priority: options.priority ?? 0
})
