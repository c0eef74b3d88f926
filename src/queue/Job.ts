import { type DateTime, Duration, Effect, Schema } from "effect"
import type { JobId } from "../core/Ids.js"
import { InvalidJob } from "../core/InvalidJob.js"
import type { FollowUp } from "../core/Job.js"
import * as Kind from "../core/Kind.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { JobIdTaken } from "./JobErrors.js"
import type { Dedupe, NewJob } from "./NewJob.js"
import { type Enqueued, Queue } from "./Queue.js"

/** What may be said about one job of a kind. */
export interface EnqueueOptions {
  readonly id?: JobId
  readonly queue?: string
  readonly priority?: number
  readonly maxAttempts?: number
  /** Not before this instant. */
  readonly runAt?: DateTime.Utc
  /** Not before this much time has passed. */
  readonly delay?: Duration.DurationInput
  /** Jobs that share a key can be limited or ordered together. */
  readonly key?: string
  /** A key alone holds while the job is active. */
  readonly dedupe?: string | Dedupe
  readonly meta?: Readonly<Record<string, unknown>>
}

export type EnqueueError = InvalidJob | JobIdTaken | DatabaseError

/** A kind of job that can be enqueued. */
export interface JobKind<in out A> extends Kind.Kind<A> {
  /** The follow-up of every job of this kind that dies: always the same, or made from its payload. */
  readonly onDead: FollowUp | ((payload: A) => FollowUp) | undefined
  /** Stores one job, as part of the surrounding transaction if there is one. Returns the id of the job that stands. */
  readonly enqueue: (payload: A, options?: EnqueueOptions) => Effect.Effect<JobId, EnqueueError, Queue>
  /** Stores up to a thousand, all or none. */
  readonly enqueueAll: (
    payloads: ReadonlyArray<A>,
    options?: Omit<EnqueueOptions, "id" | "dedupe">
  ) => Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError, Queue>
  /** The job as the queue takes it, for requests that mix kinds. */
  readonly job: (payload: A, options?: EnqueueOptions) => Effect.Effect<NewJob, InvalidJob>
}

const dedupeOf = (dedupe: string | Dedupe | undefined): Dedupe | undefined =>
  typeof dedupe === "string" ? { key: dedupe, scope: "active" } : dedupe

const startOf = (options: EnqueueOptions, now: number): Effect.Effect<number | undefined, InvalidJob> => {
  if (options.runAt !== undefined) return Effect.succeed(options.runAt.epochMillis)
  if (options.delay === undefined) return Effect.succeed(undefined)
  // A negative duration decodes to zero, and would hide a mistake of the caller's arithmetic.
  return typeof options.delay === "number" && options.delay < 0
    ? new InvalidJob({ index: 0, field: "delay", reason: "must not be negative" })
    : Effect.succeed(now + Duration.toMillis(options.delay))
}

/** Declares a kind of job. */
export const make = <A, I>(
  name: string,
  options: Kind.KindOptions<A, I> & { readonly onDead?: FollowUp | ((payload: A) => FollowUp) }
): JobKind<A> => {
  const kind = Kind.make(name, options)
  const encode = Schema.encode(kind.payload)

  const job = (payload: A, enqueue: EnqueueOptions = {}): Effect.Effect<NewJob, InvalidJob> =>
    Effect.gen(function* () {
      const encoded = yield* Effect.mapError(
        encode(payload),
        (error) => new InvalidJob({ index: 0, field: "payload", reason: `does not fit the kind: ${error.message}` })
      )
      const clock = yield* Effect.clock
      return {
        kind: kind.name,
        version: kind.version,
        queue: enqueue.queue ?? kind.queue,
        payload: encoded,
        maxAttempts: enqueue.maxAttempts ?? kind.maxAttempts,
        id: enqueue.id,
        priority: enqueue.priority ?? kind.priority,
        runAt: yield* startOf(enqueue, clock.unsafeCurrentTimeMillis()),
        key: enqueue.key,
        dedupe: dedupeOf(enqueue.dedupe),
        onDead: typeof options.onDead === "function" ? options.onDead(payload) : options.onDead,
        meta: enqueue.meta
      }
    })

  return {
    ...kind,
    onDead: options.onDead,
    job,
    enqueue: (payload, enqueue) =>
      Effect.gen(function* () {
        const queue = yield* Queue
        const [answer] = yield* queue.enqueue([yield* job(payload, enqueue)])
        return answer === undefined ? yield* Effect.dieMessage("the queue gave no answer") : answer.id
      }),
    enqueueAll: (payloads, enqueue) =>
      Effect.gen(function* () {
        const queue = yield* Queue
        const jobs = yield* Effect.forEach(payloads, (payload, index) =>
          Effect.mapError(job(payload, enqueue), ({ field, reason }) => new InvalidJob({ index, field, reason }))
        )
        return yield* queue.enqueue(jobs)
      })
  }
}
