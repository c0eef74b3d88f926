import { Clock, type DateTime, Duration, Effect, Either, Schema } from "effect"
import { type DurationInput, decode, expected } from "../core/DurationText.js"
import type { JobId } from "../core/Ids.js"
import { InvalidJob } from "../core/InvalidJob.js"
import * as Kind from "../core/Kind.js"
import { faultOfWait } from "../core/Storable.js"
import type { FollowUp } from "../core/StoredJob.js"
import type { Dedupe, NewJob } from "./enqueue/NewJob.js"
import { type Enqueued, type EnqueueError, Queue } from "./Queue.js"

/** Options of one job. */
export interface EnqueueOptions {
  readonly id?: JobId | undefined
  readonly queue?: string | undefined
  readonly priority?: number | undefined
  readonly maxAttempts?: number | undefined
  /** Earliest start time. */
  readonly runAt?: DateTime.Utc | undefined
  /** Delay from now until the earliest start. */
  readonly delay?: DurationInput | undefined
  /** Jobs with the same key can be limited or ordered together. */
  readonly key?: string | undefined
  /** A plain string is a dedupe key that is held while the job is active. */
  readonly dedupe?: string | Dedupe | undefined
  readonly meta?: Readonly<Record<string, unknown>> | undefined
}

/** Options of a bulk enqueue. Functions derive a value from each payload. */
export interface EnqueueAllOptions<in A> extends Omit<EnqueueOptions, "id" | "dedupe" | "key"> {
  readonly key?: string | ((payload: A) => string) | undefined
  readonly dedupe?: ((payload: A) => string | Dedupe) | undefined
}

export type { EnqueueError }

/** A job kind that can be enqueued. */
export interface JobKind<in out A> extends Kind.Kind<A> {
  /** Follow-up stored when a job of this kind dies: a constant, or computed from the payload. */
  readonly onDead: FollowUp | ((payload: A) => FollowUp) | undefined
  /**
   * Stores one job, in the caller's transaction if there is one. Returns the id of the new job, or of the existing job
   * with the same dedupe key.
   */
  readonly enqueue: (payload: A, options?: EnqueueOptions) => Effect.Effect<JobId, EnqueueError, Queue>
  /** Like `enqueue`, but reports whether the job was stored or another job has its dedupe key. */
  readonly enqueueOrFind: (payload: A, options?: EnqueueOptions) => Effect.Effect<Enqueued, EnqueueError, Queue>
  /** Stores up to 1000 jobs, all or none. */
  readonly enqueueAll: (
    payloads: ReadonlyArray<A>,
    options?: EnqueueAllOptions<A>
  ) => Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError, Queue>
  /** Builds a job for `Queue.enqueue`, for requests that mix kinds. */
  readonly job: (payload: A, options?: EnqueueOptions) => Effect.Effect<NewJob, InvalidJob>
}

const dedupeOf = (dedupe: string | Dedupe | undefined): Dedupe | undefined =>
  typeof dedupe === "string" ? { key: dedupe } : dedupe

const startOf = (
  runAt: number | undefined,
  delay: DurationInput | undefined,
  now: number
): Either.Either<number | undefined, InvalidJob> => {
  if (runAt !== undefined || delay === undefined) return Either.right(runAt)
  const refuse = (reason: string) => Either.left(new InvalidJob({ index: 0, field: "delay", reason }))
  // Effect decodes a negative duration as zero, which would hide a mistake in the caller's arithmetic.
  if (typeof delay === "number" && delay < 0) return refuse("must not be negative")
  try {
    const wait = decode(delay)
    const reason = faultOfWait(wait)
    return reason === undefined ? Either.right(now + Duration.toMillis(wait)) : refuse(reason)
  } catch {
    return refuse(`must be ${expected}, or milliseconds, got ${JSON.stringify(delay)}`)
  }
}

/** Defaults that a kind sets for its jobs. */
export type KindDefaults = Pick<
  Kind.Kind<never>,
  "name" | "version" | "queue" | "routed" | "maxAttempts" | "priority" | "timeout"
>

/** Applies the kind's defaults to encoded payloads. `each` returns the fields that differ between jobs. */
export const newJobs = (
  kind: KindDefaults,
  payloads: ReadonlyArray<unknown>,
  options: Omit<EnqueueOptions, "runAt" | "dedupe" | "key"> & { readonly runAt?: number | undefined },
  now: number,
  each: (place: number) => Pick<NewJob, "key" | "onDead"> & { readonly dedupe: string | Dedupe | undefined }
): Either.Either<ReadonlyArray<NewJob>, InvalidJob> =>
  Either.map(startOf(options.runAt, options.delay, now), (runAt) =>
    payloads.map((payload, place) => {
      const { dedupe, key, onDead } = each(place)
      return {
        kind: kind.name,
        version: kind.version,
        queue: options.queue ?? kind.queue,
        routed: kind.routed && options.queue === undefined,
        payload,
        maxAttempts: options.maxAttempts ?? kind.maxAttempts,
        id: options.id,
        priority: options.priority ?? kind.priority,
        runAt,
        key,
        dedupe: dedupeOf(dedupe),
        onDead,
        meta: options.meta
      }
    })
  )

/** Declares a job kind. */
export const make = <A, I>(
  name: string,
  options: Kind.KindOptions<A, I> & { readonly onDead?: FollowUp | ((payload: A) => FollowUp) }
): JobKind<A> => {
  const kind = Kind.make(name, options)
  const encode = Schema.encodeEither(kind.payload)

  const encodeAll = (payloads: ReadonlyArray<A>): Either.Either<ReadonlyArray<unknown>, InvalidJob> => {
    const all: Array<unknown> = []
    for (const [index, payload] of payloads.entries()) {
      const encoded = encode(payload)
      if (Either.isLeft(encoded)) {
        const reason = `does not match the kind's schema: ${encoded.left.message}`
        return Either.left(new InvalidJob({ index, jobs: payloads.length, field: "payload", reason }))
      }
      all.push(encoded.right)
    }
    return Either.right(all)
  }

  // No Effect per job: a bulk enqueue runs this a thousand times.
  const prepareAll = (
    payloads: ReadonlyArray<A>,
    {
      dedupe,
      key,
      runAt,
      ...rest
    }: Omit<EnqueueOptions, "dedupe" | "key"> & {
      readonly dedupe?: string | Dedupe | ((payload: A) => string | Dedupe) | undefined
      readonly key?: string | ((payload: A) => string) | undefined
    },
    now: number
  ): Either.Either<ReadonlyArray<NewJob>, InvalidJob> => {
    const encoded = encodeAll(payloads)
    if (Either.isLeft(encoded)) return Either.left(encoded.left)
    return newJobs(kind, encoded.right, { ...rest, runAt: runAt?.epochMillis }, now, (place) => {
      const payload = payloads[place] as A
      return {
        key: typeof key === "function" ? key(payload) : key,
        dedupe: typeof dedupe === "function" ? dedupe(payload) : dedupe,
        onDead: typeof options.onDead === "function" ? options.onDead(payload) : options.onDead
      }
    })
  }

  const enqueueAll = (payloads: ReadonlyArray<A>, enqueue: Parameters<typeof prepareAll>[1] = {}) =>
    Effect.flatMap(Queue, (queue) =>
      Effect.clockWith((clock): Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError> => {
        const jobs = prepareAll(payloads, enqueue, clock.unsafeCurrentTimeMillis())
        return Either.isLeft(jobs) ? Effect.fail(jobs.left) : queue.enqueue(jobs.right)
      })
    )

  const enqueueOrFind = (payload: A, enqueue?: EnqueueOptions) =>
    Effect.flatMap(enqueueAll([payload], enqueue), ([answer]) =>
      answer === undefined ? Effect.dieMessage("the queue returned no result") : Effect.succeed(answer)
    )

  return {
    ...kind,
    onDead: options.onDead,
    job: (payload, enqueue = {}) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.flatMap(prepareAll([payload], enqueue, now), ([job]) =>
          job === undefined ? Effect.dieMessage("no job was built") : Effect.succeed(job)
        )
      ),
    enqueue: (payload, enqueue) => Effect.map(enqueueOrFind(payload, enqueue), ({ id }) => id),
    enqueueOrFind,
    enqueueAll
  }
}
