import { Clock, type DateTime, Duration, Effect, Either, Schema } from "effect"
import type { JobId } from "../core/Ids.js"
import { InvalidJob } from "../core/InvalidJob.js"
import * as Kind from "../core/Kind.js"
import { faultOfWait } from "../core/Storable.js"
import type { FollowUp } from "../core/StoredJob.js"
import type { Dedupe, NewJob } from "./enqueue/NewJob.js"
import { type Enqueued, type EnqueueError, Queue } from "./Queue.js"

export interface EnqueueOptions {
  readonly id?: JobId
  readonly queue?: string
  readonly priority?: number
  readonly maxAttempts?: number
  /** Earliest start time. */
  readonly runAt?: DateTime.Utc
  /** Delay from now until the earliest start. */
  readonly delay?: Duration.DurationInput
  /** Jobs with the same key can be limited or ordered together. */
  readonly key?: string
  /** A plain string is a dedupe key that is held while the job is active. */
  readonly dedupe?: string | Dedupe
  readonly meta?: Readonly<Record<string, unknown>>
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
  /** Stores up to 1000 jobs, all or none. */
  readonly enqueueAll: (
    payloads: ReadonlyArray<A>,
    options?: Omit<EnqueueOptions, "id" | "dedupe">
  ) => Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError, Queue>
  /** Builds a job for `Queue.enqueue`, for requests that mix kinds. */
  readonly job: (payload: A, options?: EnqueueOptions) => Effect.Effect<NewJob, InvalidJob>
}

const dedupeOf = (dedupe: string | Dedupe | undefined): Dedupe | undefined =>
  typeof dedupe === "string" ? { key: dedupe, scope: "active" } : dedupe

const startOf = (options: EnqueueOptions, now: number): Either.Either<number | undefined, InvalidJob> => {
  if (options.runAt !== undefined) return Either.right(options.runAt.epochMillis)
  if (options.delay === undefined) return Either.right(undefined)
  // Effect decodes a negative duration as zero, which would hide a mistake in the caller's arithmetic.
  const isNegative = typeof options.delay === "number" && options.delay < 0
  const reason = isNegative ? "must not be negative" : faultOfWait(Duration.decode(options.delay))
  return reason === undefined
    ? Either.right(now + Duration.toMillis(options.delay))
    : Either.left(new InvalidJob({ index: 0, field: "delay", reason }))
}

/** Declares a job kind. */
export const make = <A, I>(
  name: string,
  options: Kind.KindOptions<A, I> & { readonly onDead?: FollowUp | ((payload: A) => FollowUp) }
): JobKind<A> => {
  const kind = Kind.make(name, options)
  const encode = Schema.encodeEither(kind.payload)

  // No Effect per job: a bulk enqueue runs this a thousand times.
  const prepareAll = (
    payloads: ReadonlyArray<A>,
    enqueue: EnqueueOptions,
    now: number
  ): Either.Either<ReadonlyArray<NewJob>, InvalidJob> => {
    const start = startOf(enqueue, now)
    if (Either.isLeft(start)) return Either.left(start.left)
    const dedupe = dedupeOf(enqueue.dedupe)
    const jobs: Array<NewJob> = []
    for (let index = 0; index < payloads.length; index += 1) {
      const payload = payloads[index] as A
      const encoded = encode(payload)
      if (Either.isLeft(encoded)) {
        const reason = `does not fit the kind: ${encoded.left.message}`
        return Either.left(new InvalidJob({ index, jobs: payloads.length, field: "payload", reason }))
      }
      jobs.push({
        kind: kind.name,
        version: kind.version,
        queue: enqueue.queue ?? kind.queue,
        routed: kind.routed && enqueue.queue === undefined,
        payload: encoded.right,
        maxAttempts: enqueue.maxAttempts ?? kind.maxAttempts,
        id: enqueue.id,
        priority: enqueue.priority ?? kind.priority,
        runAt: start.right,
        key: enqueue.key,
        dedupe,
        onDead: typeof options.onDead === "function" ? options.onDead(payload) : options.onDead,
        meta: enqueue.meta
      })
    }
    return Either.right(jobs)
  }

  const enqueueAll = (payloads: ReadonlyArray<A>, enqueue: EnqueueOptions = {}) =>
    Effect.flatMap(Queue, (queue) =>
      Effect.clockWith((clock): Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError> => {
        const jobs = prepareAll(payloads, enqueue, clock.unsafeCurrentTimeMillis())
        return Either.isLeft(jobs) ? Effect.fail(jobs.left) : queue.enqueue(jobs.right)
      })
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
    enqueue: (payload, enqueue) =>
      Effect.flatMap(enqueueAll([payload], enqueue), ([answer]) =>
        answer === undefined ? Effect.dieMessage("the queue returned no result") : Effect.succeed(answer.id)
      ),
    enqueueAll
  }
}
