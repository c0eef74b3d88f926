import { Cause, Effect, Either, Exit, Predicate } from "effect"
import type { DurationInput } from "../core/DurationInput.js"
import { InvalidJob } from "../core/InvalidJob.js"
import type { KindDefaults } from "../core/KindDefaults.js"
import { shown } from "../core/Storable.js"
import type { FollowUp } from "../core/StoredJob.js"
import * as Kind from "../queue/Job.js"
import type { NewJob } from "../queue/NewJob.js"
import { type Enqueued as EnqueueResult, Queue } from "../queue/Queue.js"
import { fromCause } from "./FromCause.js"
import { checkKnown, type InstantInput, instantOf, namesOf } from "./Options.js"
import { InvalidOptionError } from "./ShiftErrors.js"
import type { Transaction } from "./TransactionAdapter.js"

/** Carries the result type of a job id; exists only at compile time. */
declare const resultOf: unique symbol

/** A job id and the type of the job's result. */
export type JobId<Result = unknown> = string & {
  /** Carries the type of the job's result. No id has this property. */
  readonly [resultOf]?: Result
}

/** A dedupe key and how long its job holds it. */
export interface DedupeOptions {
  /** Text that only one job can hold at a time, up to 512 characters. */
  readonly key: string
  /** How long the key is held: until the job ends, or as long as its row exists. [`retained` with a window, else `active`] */
  readonly scope?: "active" | "retained" | undefined
  /** How long a `retained` key is held after the job was stored. [as long as its row exists] */
  readonly window?: DurationInput | undefined
  /** If the job that holds the key is still pending, replace its payload and start time. [false] */
  readonly replace?: boolean | undefined
}

/** Options of one job. */
export interface EnqueueOptions {
  /** A UUID. Makes the call idempotent: repeat it with the same id if the response was lost. */
  readonly id?: string | undefined
  /** Queue that the job waits in. [the job's queue, else its route] */
  readonly queue?: string | undefined
  /** Lower runs first, from -32768 to 32767. [the job's] */
  readonly priority?: number | undefined
  /** Attempts before the job is dead, counting the first, up to 1000. [the job's] */
  readonly attempts?: number | undefined
  /** Earliest start time. */
  readonly runAt?: InstantInput | undefined
  /** Minimum time before the job starts. */
  readonly delay?: DurationInput | undefined
  /** Jobs that share a key can be limited or ordered together. */
  readonly key?: string | undefined
  /** Stores nothing while another job holds this key. A string is a key that is held until its job ends. */
  readonly dedupe?: string | DedupeOptions | undefined
  /** Stored with the job and passed to its handler beside the payload. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /**
   * Whose data the job holds, such as `customer:42`. Only a digest is stored; `shift.erase` removes the data of a subject. Jobs
   * that its handler enqueues have the same subject, unless they name another. [none]
   */
  readonly subject?: string | undefined
  /** Your own transaction. The job exists once it commits. */
  readonly tx?: Transaction | undefined
}

/** Options of `enqueueMany`. Functions derive a value from each payload. */
export interface EnqueueManyOptions<In> extends Omit<EnqueueOptions, "id" | "dedupe" | "key" | "subject"> {
  /** Key of every job, or a function that derives it from the payload. [none] */
  readonly key?: string | ((payload: In) => string) | undefined
  /** Subject of every job, or a function that derives it from the payload. [none] */
  readonly subject?: string | ((payload: In) => string) | undefined
  /** Derives the dedupe key of each job from its payload. [none] */
  readonly dedupe?: ((payload: In) => string | DedupeOptions) | undefined
}

/** A new job, or the job that already holds the dedupe key. */
export interface Enqueued<Result = unknown> {
  /** Id of the new job, or of the job that holds the dedupe key. Pass it to `shift.result`. */
  readonly id: JobId<Result>
  /** `enqueued` if the job was stored, `deduplicated` if another job holds its dedupe key. */
  readonly outcome: "enqueued" | "deduplicated"
}

/** What can be enqueued. */
export interface Enqueueable<in In, out Result> {
  /** Name, version, queue and other defaults of the job's kind. */
  readonly kind: KindDefaults
  /**
   * Validates a payload and returns it as it is stored. Throws InvalidPayloadError. `index` is the index of the payload
   * among those of a call with several.
   */
  encode(payload: In, index?: number): unknown
  /** What to run when a job with this payload dies. */
  deadLetter(payload: In): FollowUp | undefined
  /** Validates a stored result and converts it to the type that `shift.result` returns. */
  readResult(stored: unknown): ReadResult<Result> | Promise<ReadResult<Result>>
}

type ReadResult<Result> =
  | { readonly value: Result; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<{ readonly path: ReadonlyArray<PropertyKey>; readonly message: string }> }

/**
 * Stores one job and resolves when it is durable. Rejects with InvalidPayloadError, InvalidJobError, QueueFullError
 * and others.
 */
export type EnqueueOne<Options> = <In, Result>(
  job: Enqueueable<In, Result>,
  payload: NoInfer<In>,
  options?: Options
) => Promise<Enqueued<Result>>

type AnyOptions<In> = Omit<EnqueueOptions, "dedupe" | "key" | "subject" | "tx"> &
  Pick<EnqueueManyOptions<In>, "key" | "subject"> & {
    readonly dedupe?: EnqueueOptions["dedupe"] | EnqueueManyOptions<In>["dedupe"]
  }

const known = namesOf<EnqueueOptions>({
  id: 0,
  queue: 0,
  priority: 0,
  attempts: 0,
  runAt: 0,
  delay: 0,
  key: 0,
  dedupe: 0,
  meta: 0,
  subject: 0,
  tx: 0
})

const knownOfDedupe = namesOf<DedupeOptions>({ key: 0, scope: 0, window: 0, replace: 0 })

const noOptions: AnyOptions<unknown> = {}

type Made<A> = Either.Either<A, InvalidJob> | Promise<Either.Either<A, InvalidJob>>

/** Checks the options, and returns when the job starts; undefined means now. */
const startOf = (options: AnyOptions<never>, now: () => number): Either.Either<number | undefined, InvalidJob> => {
  checkKnown(options, known, "an option of enqueue")
  const { delay, runAt } = options
  if (runAt !== undefined && delay !== undefined)
    throw new InvalidOptionError("delay", "Pass delay or runAt, not both.")
  return Either.mapLeft(
    Kind.startOf({ delay, runAt: runAt === undefined ? undefined : instantOf("runAt", runAt) }, now),
    (reason) => new InvalidJob({ index: 0, field: "delay", reason })
  )
}

const made = <In>(
  job: Enqueueable<In, unknown>,
  payload: In,
  encoded: unknown,
  options: AnyOptions<In>,
  runAt: number | undefined
): NewJob => {
  const ready = Kind.jobOfCall(job.kind, payload, encoded, options, runAt, job.deadLetter(payload))
  if (ready.dedupe !== undefined && typeof options.dedupe === "object")
    checkKnown(ready.dedupe, knownOfDedupe, "an option of a dedupe key", "dedupe.")
  return ready
}

/** What to call for a workflow instead. */
const ofWorkflow = {
  enqueue: "start an execution with shift.start(workflow, payload)",
  result: "read the result of an execution with shift.execution(workflow, key).result()",
  child: "call the workflow itself with the payload to make a child"
}

/** Throws InvalidOptionError for what is not a job. @internal */
export const checkJob = (method: keyof typeof ofWorkflow, job: unknown): void => {
  const hasKind = Predicate.hasProperty(job, "kind")
  if (hasKind && Predicate.hasProperty(job, "encode")) return
  if (hasKind && Predicate.hasProperty(job, "definition") && Predicate.hasProperty(job, "name"))
    throw new InvalidOptionError("job", `"${job.name}" is a workflow, not a job: ${ofWorkflow[method]}.`)
  throw new InvalidOptionError(
    "job",
    `The first argument of ${method} must be a job that job(…) returned, got ${shown(job)}.`
  )
}

/** Makes a job. Returns a promise only for asynchronous validators, so that calls of one tick form one batch. @internal */
export const newJob = <In>(
  job: Enqueueable<In, unknown>,
  payload: In,
  options: AnyOptions<In> = noOptions,
  now: () => number
): Made<NewJob> => {
  const start = startOf(options, now)
  const encoded = job.encode(payload)
  if (Either.isLeft(start)) return Either.left(start.left)
  return encoded instanceof Promise
    ? encoded.then((late) => Either.right(made(job, payload, late, options, start.right)))
    : Either.right(made(job, payload, encoded, options, start.right))
}

/** Makes jobs from payloads, like `newJob`. @internal */
export const newJobs = <In>(
  job: Enqueueable<In, unknown>,
  payloads: ReadonlyArray<In>,
  options: AnyOptions<In>,
  now: () => number
): Made<ReadonlyArray<NewJob>> => {
  const start = startOf(options, now)
  const stored = payloads.map((payload, index) => job.encode(payload, payloads.length === 1 ? undefined : index))
  if (Either.isLeft(start)) return Either.left(start.left)
  const make = (encoded: ReadonlyArray<unknown>) =>
    Either.right(payloads.map((payload, place) => made(job, payload, encoded[place], options, start.right)))
  return stored.some((each) => each instanceof Promise) ? Promise.all(stored).then(make) : make(stored)
}

/** Gives the result of an enqueue the type of the job's result. @internal */
export const enqueuedOf = <Result>(enqueued: EnqueueResult): Enqueued<Result> => enqueued as Enqueued<never>

/** `enqueue` of a handler: joins the handler's transaction, if it has one. @internal */
export const inHandler =
  (run: <A, E>(effect: Effect.Effect<A, E, Queue>) => Promise<A>): EnqueueOne<Omit<EnqueueOptions, "tx">> =>
  async <In, Result>(job: Enqueueable<In, Result>, payload: In, options: Omit<EnqueueOptions, "tx"> = {}) => {
    checkJob("enqueue", job)
    const clock = await run(Effect.clock)
    const made = await newJob(job, payload, options, () => clock.unsafeCurrentTimeMillis())
    const exit = await run(
      Effect.exit(Effect.flatMap(made, (ready) => Effect.flatMap(Queue, (queue) => queue.enqueue([ready]))))
    )
    if (Exit.isFailure(exit)) throw fromCause(exit.cause)
    const [enqueued] = exit.value
    if (enqueued === undefined) throw fromCause(Cause.die(new Error("the queue returned no result")))
    return enqueuedOf<Result>(enqueued)
  }
