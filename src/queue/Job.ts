import { Clock, Context, type DateTime, Duration, Effect, Either, type Fiber, ParseResult } from "effect"
import { type DurationInput, decode, expected } from "../core/DurationText.js"
import type { JobId } from "../core/Ids.js"
import { InvalidJob } from "../core/InvalidJob.js"
import * as Kind from "../core/Kind.js"
import type { KindDefaults } from "../core/KindDefaults.js"
import { faultOfWait, shown } from "../core/Storable.js"
import type { FollowUp, OnDead } from "../core/StoredJob.js"
import type { NewSubscription } from "./events/Events.js"
import type { Dedupe, NewJob } from "./NewJob.js"
import { type Enqueued, type EnqueueError, Queue } from "./Queue.js"

/** How one job differs from the defaults of its kind. */
export interface EnqueueOptions {
  /** A UUID. Makes the call idempotent: repeat it with the same id if the response was lost. [generated] */
  readonly id?: JobId | undefined
  /** Queue that the job waits in. [the kind's queue] */
  readonly queue?: string | undefined
  /** Lower runs first, from -32768 to 32767. [the kind's] */
  readonly priority?: number | undefined
  /** Attempts before the job is dead, counting the first, up to 1000. [the kind's] */
  readonly attempts?: number | undefined
  /** Earliest start time. */
  readonly runAt?: DateTime.Utc | undefined
  /** Delay from now until the earliest start. */
  readonly delay?: DurationInput | undefined
  /** Jobs with the same key can be limited or ordered together. */
  readonly key?: string | undefined
  /** A plain string is a dedupe key that is held while the job is active. */
  readonly dedupe?: string | Dedupe | undefined
  /** Object that is stored with the job and passed to its handler beside the payload, up to 64 KiB of JSON. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /** Whose data the job holds, such as `customer:42`. Only a digest is stored. `nightshift erase` removes the data. [none] */
  readonly subject?: string | undefined
}

/** Options of a bulk enqueue. Functions derive a value from each payload. */
export interface EnqueueManyOptions<in A> extends Omit<EnqueueOptions, "id" | "dedupe" | "key" | "subject"> {
  /** Key of every job, or a function that derives it from the payload. [none] */
  readonly key?: string | ((payload: A) => string) | undefined
  /** Subject of every job, or a function that derives it from the payload. [none] */
  readonly subject?: string | ((payload: A) => string) | undefined
  /** Derives the dedupe key of each job from its payload. [none] */
  readonly dedupe?: ((payload: A) => string | Dedupe) | undefined
}

export { type ResultOptions, result } from "./JobResult.js"
export type { EnqueueError }

/** A job kind that can be enqueued. */
export interface JobKind<in out A> extends Kind.Kind<A> {
  /** Whether its jobs are executions of a workflow, which are started and not enqueued. [false] */
  readonly workflow?: boolean
  /** Whether an execution is run only by the release of the code that ran it first. [false] */
  readonly pinned?: boolean
  /** The event whose subscriber this kind is. Each event makes a job. */
  readonly subscribes?: NewSubscription
  /** Follow-up stored when a job of this kind dies: a constant, or computed from the payload. */
  readonly onDead: FollowUp | ((payload: A) => FollowUp) | undefined
  /** Computes the follow-up from a stored payload of the current version, if `onDead` is a function. */
  readonly followUpOf?: ((stored: unknown) => FollowUp) | undefined
  /** Stores one job, in the caller's transaction if there is one. Another job may hold its dedupe key already. */
  readonly enqueue: (payload: A, options?: EnqueueOptions) => Effect.Effect<Enqueued, EnqueueError, Queue>
  /** Stores up to 1000 jobs, all or none. */
  readonly enqueueMany: (
    payloads: ReadonlyArray<A>,
    options?: EnqueueManyOptions<A>
  ) => Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError, Queue>
  /** Builds a job for `Queue.enqueue`, for requests that mix kinds. */
  readonly job: (payload: A, options?: EnqueueOptions) => Effect.Effect<NewJob, InvalidJob>
}

/** The earliest start of a job in epoch milliseconds, undefined for now; or why the delay is invalid. */
export const startOf = (
  {
    delay,
    runAt
  }: {
    /** Delay from now until the earliest start. Excludes `runAt`. */
    readonly delay?: DurationInput | undefined
    /** Earliest start in epoch milliseconds. Excludes `delay`. */
    readonly runAt?: number | undefined
  },
  now: () => number
): Either.Either<number | undefined, string> => {
  if (delay === undefined) return Either.right(runAt)
  if (runAt !== undefined) return Either.left("must not be combined with runAt")
  // Effect decodes a negative duration as zero, which would hide a mistake in the caller's arithmetic.
  if (typeof delay === "number" && delay < 0) return Either.left("must not be negative")
  try {
    const wait = decode(delay)
    const reason = faultOfWait(wait)
    return reason === undefined ? Either.right(now() + Duration.toMillis(wait)) : Either.left(reason)
  } catch {
    return Either.left(`must be ${expected}, or milliseconds, got ${shown(delay)}`)
  }
}

export type { KindDefaults }

/** A request for a job with an encoded payload. The kind's defaults fill what it does not say. */
export interface JobFields {
  /** Payload as it is stored: a JSON value of up to 1 MiB. */
  readonly payload: unknown
  /** The payload as JSON, if the caller has it. */
  readonly payloadText?: string | undefined
  /** Queue that the job waits in. [the kind's queue, or its route] */
  readonly queue?: string | undefined
  /** Lower runs first, from -32768 to 32767. [the kind's] */
  readonly priority?: number | undefined
  /** Earliest start, in epoch milliseconds. [now] */
  readonly runAt?: number | undefined
  /** Attempts before the job is dead, counting the first, up to 1000. [the kind's] */
  readonly attempts?: number | undefined
  /** Jobs with the same key can be limited or ordered together. [none] */
  readonly key?: string | undefined
  /** Stores nothing while another job holds this key. [none] */
  readonly dedupe?: Dedupe | undefined
  /** A UUID, so that a request whose reply was lost can be repeated. [generated] */
  readonly id?: JobId | undefined
  /** Object that is stored with the job and passed to its handler beside the payload. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /** Whose data the job holds, such as `customer:42`. [none] */
  readonly subject?: string | undefined
  /** Job to enqueue if this one dies. [the kind's] */
  readonly onDead?: OnDead | undefined
}

/**
 * The job of a request: the only place where the defaults of a kind meet a request, for every way to enqueue. The SQL
 * function `enqueue` does the same.
 */
export const jobOf = (
  kind: KindDefaults & {
    /** Job to enqueue if one of this kind dies. [none] */
    readonly onDead?: OnDead | undefined
  },
  request: JobFields
): NewJob => ({
  kind: kind.name,
  version: kind.version,
  queue: request.queue ?? kind.queue,
  routed: kind.routed === true && request.queue === undefined,
  payload: request.payload,
  payloadText: request.payloadText,
  attempts: request.attempts ?? kind.attempts,
  id: request.id,
  priority: request.priority ?? kind.priority,
  runAt: request.runAt,
  key: request.key,
  dedupe: request.dedupe,
  onDead: request.onDead ?? kind.onDead,
  meta: request.meta,
  subject: request.subject
})

/** Options of a job, and of many: functions derive a value from each payload. */
export interface CallOptions<in A> extends Pick<JobFields, "queue" | "priority" | "attempts" | "meta"> {
  /** A UUID, so that a call whose response was lost can be repeated. [generated] */
  readonly id?: string | undefined
  /** Key of the job, or a function that derives it from the payload. [none] */
  readonly key?: string | ((payload: A) => string) | undefined
  /** Dedupe key of the job, or a function that derives it from the payload. [none] */
  readonly dedupe?: string | Dedupe | ((payload: A) => string | Dedupe) | undefined
  /** Subject of the job, or a function that derives it from the payload. [none] */
  readonly subject?: string | ((payload: A) => string) | undefined
}

/** The job of a call in code, of programs with Effect and with promises. `encoded` is the payload as it is stored. */
export const jobOfCall = <A>(
  kind: KindDefaults,
  payload: A,
  encoded: unknown,
  options: CallOptions<A>,
  runAt: number | undefined,
  onDead: FollowUp | undefined
): NewJob => {
  const { attempts, id, key, meta, priority, queue, subject } = options
  const dedupe = typeof options.dedupe === "function" ? options.dedupe(payload) : options.dedupe
  return jobOf(kind, {
    payload: encoded,
    id: id as JobId | undefined,
    queue,
    priority,
    attempts,
    meta,
    runAt,
    key: typeof key === "function" ? key(payload) : key,
    subject: typeof subject === "function" ? subject(payload) : subject,
    dedupe: typeof dedupe === "string" ? { key: dedupe } : dedupe,
    onDead
  })
}

/** The job that follows another job or a batch. It keeps no other options. */
export const followUpOf = (kind: KindDefaults, request: JobFields): FollowUp => {
  const { kind: name, attempts, payload, priority = 0, queue, routed, version } = jobOf(kind, request)
  return {
    kind: name,
    version,
    queue,
    payload,
    attempts,
    ...(priority === 0 ? {} : { priority }),
    ...(routed === true ? { routed } : {})
  }
}

const noOptions: EnqueueOptions = {}

/** The result of a request with one job. */
const onlyOf = (answers: ReadonlyArray<Enqueued>): Enqueued => {
  const only = answers[0]
  if (only === undefined) throw new Error("the queue returned no result")
  return only
}

const clockOf = (fiber: Fiber.RuntimeFiber<unknown, unknown>): Clock.Clock =>
  Context.get(fiber.currentDefaultServices, Clock.Clock)

/**
 * Declares a kind of job: its name, its payload schema and its defaults. Producers and workers share it.
 *
 * @example
 * ```ts
 * import { Schema } from "effect"
 * import { Job } from "nightshift"
 *
 * export const SendReceipt = Job.make("send_receipt", {
 *   payload: Schema.Struct({ orderId: Schema.String }),
 *   queue: "mail",
 *   attempts: 8
 * })
 * export const stored = SendReceipt.enqueue({ orderId: "A-17" }, { delay: "5m" })
 * ```
 */
export const make = <A, I>(
  name: string,
  options: Kind.KindOptions<A, I> & {
    /** Job to enqueue if one of this kind dies: a constant, or computed from the payload. [none] */
    readonly onDead?: FollowUp | ((payload: A) => FollowUp)
  }
): JobKind<A> => {
  const kind = Kind.make(name, options)
  const { onDead } = options
  const encode = ParseResult.encodeEither(kind.payload)
  const decode = ParseResult.decodeUnknownSync(kind.payload)

  /**
   * The jobs of a call, or the first error. A plain function, no Effect per job: a bulk enqueue makes a thousand jobs, and
   * thousands of fibers enqueue single ones.
   */
  const prepareAll = (
    payloads: ReadonlyArray<A>,
    given: EnqueueOptions | EnqueueManyOptions<A>,
    now: () => number
  ): Either.Either<ReadonlyArray<NewJob>, InvalidJob> => {
    const start = startOf({ delay: given.delay, runAt: given.runAt?.epochMillis }, now)
    if (Either.isLeft(start)) return Either.left(new InvalidJob({ index: 0, field: "delay", reason: start.left }))
    const jobs: Array<NewJob> = []
    for (const [place, payload] of payloads.entries()) {
      const encoded = encode(payload)
      if (Either.isLeft(encoded)) {
        const reason = `does not match the kind's schema: ${ParseResult.TreeFormatter.formatIssueSync(encoded.left)}`
        return Either.left(new InvalidJob({ index: place, jobs: payloads.length, field: "payload", reason }))
      }
      const dead = typeof onDead === "function" ? onDead(payload) : onDead
      jobs.push(jobOfCall(kind, payload, encoded.right, given, start.right, dead))
    }
    return Either.right(jobs)
  }

  /** Reads services from the fiber: one step of the fiber instead of one for each service. */
  const enqueueOne = (payload: A, given: EnqueueOptions = noOptions) =>
    Effect.withFiberRuntime<ReadonlyArray<Enqueued>, EnqueueError, Queue>((fiber) => {
      const jobs = prepareAll([payload], given, () => clockOf(fiber).unsafeCurrentTimeMillis())
      return Either.isLeft(jobs)
        ? Effect.fail(jobs.left)
        : Context.unsafeGet(fiber.currentContext, Queue).enqueue(jobs.right)
    })

  return {
    ...kind,
    onDead,
    ...(typeof onDead === "function" ? { followUpOf: (stored: unknown) => onDead(decode(stored)) } : {}),
    job: (payload, given = noOptions) =>
      Effect.clockWith((clock) =>
        Either.map(
          prepareAll([payload], given, () => clock.unsafeCurrentTimeMillis()),
          ([job]) => job as NewJob
        )
      ),
    enqueue: (payload, given) => Effect.map(enqueueOne(payload, given), onlyOf),
    enqueueMany: (payloads, given = {}) =>
      Effect.flatMap(Queue, (queue) =>
        Effect.clockWith((clock): Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError> => {
          const jobs = prepareAll(payloads, given, () => clock.unsafeCurrentTimeMillis())
          return Either.isLeft(jobs) ? Effect.fail(jobs.left) : queue.enqueue(jobs.right)
        })
      )
  }
}
