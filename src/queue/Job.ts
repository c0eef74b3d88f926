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
  readonly id?: JobId
  readonly queue?: string
  readonly priority?: number
  readonly maxAttempts?: number
  /** Not before this instant. */
  readonly runAt?: DateTime.Utc
  /** Not before this much time has passed. */
  readonly delay?: DurationInput
  /** Jobs that share a key can be limited or ordered together. */
  readonly key?: string
  /** A key alone holds while the job is active. */
  readonly dedupe?: string | Dedupe
  readonly meta?: Readonly<Record<string, unknown>>
}

/** Options of several jobs. What differs from job to job is made from its payload. */
export interface EnqueueAllOptions<in A> extends Omit<EnqueueOptions, "id" | "dedupe" | "key"> {
  readonly key?: string | ((payload: A) => string)
  readonly dedupe?: (payload: A) => string | Dedupe
}

export type { EnqueueError }

/** A kind of job that can be enqueued. */
export interface JobKind<in out A> extends Kind.Kind<A> {
  /** The follow-up of every job of this kind that dies: always the same, or made from its payload. */
  readonly onDead: FollowUp | ((payload: A) => FollowUp) | undefined
  /** Stores one job, as part of the surrounding transaction if there is one. Returns the id of the job that stands. */
  readonly enqueue: (payload: A, options?: EnqueueOptions) => Effect.Effect<JobId, EnqueueError, Queue>
  /** The same, and reports whether the job was stored or another with its dedupe key was found. */
  readonly enqueueOrFind: (payload: A, options?: EnqueueOptions) => Effect.Effect<Enqueued, EnqueueError, Queue>
  /** Stores up to a thousand, all or none. */
  readonly enqueueAll: (
    payloads: ReadonlyArray<A>,
    options?: EnqueueAllOptions<A>
  ) => Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError, Queue>
  /** The job as the queue takes it, for requests that mix kinds. */
  readonly job: (payload: A, options?: EnqueueOptions) => Effect.Effect<NewJob, InvalidJob>
}

const dedupeOf = (dedupe: string | Dedupe | undefined): Dedupe | undefined =>
  typeof dedupe === "string" ? { key: dedupe, scope: "active" } : dedupe

const startOf = (
  runAt: number | undefined,
  delay: DurationInput | undefined,
  now: number
): Either.Either<number | undefined, InvalidJob> => {
  if (runAt !== undefined || delay === undefined) return Either.right(runAt)
  const refuse = (reason: string) => Either.left(new InvalidJob({ index: 0, field: "delay", reason }))
  // A negative duration decodes to zero, and would hide a mistake of the caller's arithmetic.
  if (typeof delay === "number" && delay < 0) return refuse("must not be negative")
  try {
    const wait = decode(delay)
    const reason = faultOfWait(wait)
    return reason === undefined ? Either.right(now + Duration.toMillis(wait)) : refuse(reason)
  } catch {
    return refuse(`must be ${expected}, or milliseconds, not ${JSON.stringify(delay)}`)
  }
}

/** What a kind says of each of its jobs. */
export type KindDefaults = Pick<
  Kind.Kind<never>,
  "name" | "version" | "queue" | "routed" | "maxAttempts" | "priority" | "timeout"
>

/** Fills in what the kind says, for payloads that are JSON already. `each` gives what differs from job to job. */
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

/** Declares a kind of job. */
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
        const reason = `does not fit the kind: ${encoded.left.message}`
        return Either.left(new InvalidJob({ index, jobs: payloads.length, field: "payload", reason }))
      }
      all.push(encoded.right)
    }
    return Either.right(all)
  }

  // Plain calls and no Effect per job: a bulk enqueue passes here a thousand times.
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
      answer === undefined ? Effect.dieMessage("the queue gave no answer") : Effect.succeed(answer)
    )

  return {
    ...kind,
    onDead: options.onDead,
    job: (payload, enqueue = {}) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.flatMap(prepareAll([payload], enqueue, now), ([job]) =>
          job === undefined ? Effect.dieMessage("a job was not made") : Effect.succeed(job)
        )
      ),
    enqueue: (payload, enqueue) => Effect.map(enqueueOrFind(payload, enqueue), ({ id }) => id),
    enqueueOrFind,
    enqueueAll
  }
}
