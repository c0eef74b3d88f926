import { Context, type Duration, Effect, Option, Schema } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { Expected } from "../../core/ExpectedError.js"
import { type BatchId, isId } from "../../core/Ids.js"
import { InvalidJob } from "../../core/InvalidJob.js"
import { faultOfText, jsonText } from "../../core/Storable.js"
import { type FollowUp, limits } from "../../core/StoredJob.js"
import { type SubjectDigest, subjectMeta } from "../../core/Subject.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { type Erase, subjectCharacters } from "../../database/SubjectText.js"
import { JobIdTaken } from "../JobErrors.js"
import { about, faultOfFollowUp, type NewJob } from "../NewJob.js"
import type { Enqueued, EnqueueError, Queue } from "../Queue.js"
import type { Batch } from "./Batch.js"

/** Maximum number of jobs in one call. A batch has no maximum: add more jobs to it. */
export const maxBatchJobs = 10_000

/** Maximum page size: the jobs of every open batch on it are counted. */
export const maxBatchPage = 100

export const maxNameCharacters = 128

export type { Batch, BatchCounts } from "./Batch.js"

export interface NewBatch {
  readonly jobs: ReadonlyArray<NewJob>
  /** Enqueued when all jobs have ended, whatever their result. Its `meta` has the batch's id and counts. */
  readonly followUp?: FollowUp | undefined
  readonly name?: string | undefined
  /** The person or customer whose data the batch holds. Jobs that name no other have the same, and the follow-up. */
  readonly subject?: string | undefined
  /** Generated if absent. With an id, a request whose reply was lost can be repeated: it finds the first batch. */
  readonly id?: BatchId | undefined
}

export class InvalidBatch extends Expected<InvalidBatch>(400, { code: "INVALID_OPTION" })("InvalidBatch", {
  field: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.field} ${this.reason}.`
  }
}

export class BatchNotFound extends Expected<BatchNotFound>(404)("BatchNotFound", { id: Schema.String }) {
  override get message(): string {
    return `There is no batch ${this.id}. Its retention expired, or the id is wrong.`
  }
}

export class BatchClosed extends Expected<BatchClosed>(409)("BatchClosed", { id: Schema.String }) {
  override get message(): string {
    return `Batch ${this.id} is closed: all its jobs have ended. Create a new batch.`
  }
}

export interface CreatedBatch {
  readonly batch: Batch
  /** False if a batch with this id existed: nothing was stored. */
  readonly created: boolean
  /** One entry per job, in the same order; empty if the batch existed. */
  readonly jobs: ReadonlyArray<Enqueued>
}

export interface Closed {
  readonly closed: number
  /** When the newest open batch was created, in epoch milliseconds; undefined if no batch is open. */
  readonly newestOpen: number | undefined
}

export interface BatchPage {
  readonly limit: number
  readonly cursor?: string | undefined
}

/** Stores jobs of any kinds together and enqueues one follow-up when all of them have ended. */
export class Batches extends Context.Tag("nightshift/queue/Batches")<
  Batches,
  {
    /**
     * Stores a batch and its jobs, all or none. A job that is not stored, because another job has its dedupe key, is not
     * part of the batch. A batch without jobs closes at once.
     */
    readonly create: (batch: NewBatch) => Effect.Effect<CreatedBatch, EnqueueError | InvalidBatch>

    /**
     * Adds jobs to an open batch. A job of the batch can do so safely, because the batch stays open until that job has
     * ended.
     */
    readonly add: (
      id: BatchId,
      jobs: ReadonlyArray<NewJob>
    ) => Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError | InvalidBatch | BatchNotFound | BatchClosed>

    /** Returns a batch with its counts. Fails with BatchNotFound. */
    readonly get: (id: BatchId) => Effect.Effect<Batch, BatchNotFound | DatabaseError>

    /** Lists batches, newest first. */
    readonly list: (page: BatchPage) => Effect.Effect<
      {
        /** One page of batches. */
        readonly batches: ReadonlyArray<Batch>
        /** Cursor of the next page. Undefined on the last page. */
        readonly next: string | undefined
      },
      BadCursor | DatabaseError
    >

    /** Closes batches whose jobs have all ended and enqueues their follow-ups. */
    readonly close: Effect.Effect<Closed, DatabaseError>

    /** Deletes batches that were closed longer ago than this. Returns how many. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>

    /** Erases the names and follow-ups of batches of a subject. An open batch closes without a follow-up. */
    readonly erase: Erase
  }
>() {}

/** Topic of hints for new batches. */
export const batchTopic = "batch"

/** Validates the fields that job validation does not cover. */
export const checked = ({ followUp, id, jobs, name, subject }: NewBatch): Effect.Effect<void, InvalidBatch> => {
  const refuse = (field: string, reason: string) => Effect.fail(new InvalidBatch({ field, reason }))
  if (id !== undefined && !isId(id)) return refuse("id", "must be a lower-case UUID")
  if (jobs.length > maxBatchJobs) return refuse("jobs", `must have at most ${maxBatchJobs} jobs, got ${jobs.length}`)
  const badName = name === undefined ? undefined : faultOfText(name, maxNameCharacters)
  if (badName !== undefined) return refuse("name", badName)
  const badSubject = subject === undefined ? undefined : faultOfText(subject, subjectCharacters)
  if (badSubject !== undefined) return refuse("subject", badSubject)
  if (followUp === undefined) return Effect.void
  const fault = faultOfFollowUp(followUp, "followUp")
  if (fault !== undefined) return refuse(...fault)
  const text = jsonText(followUp, limits.payloadBytes)
  return text._tag === "Left" ? refuse("followUp", text.left) : Effect.void
}

/** Enqueues the jobs of a call as part of the batch, in requests of maximum size. Call it in a transaction. */
export const enqueueIn = (
  queue: typeof Queue.Service,
  batch: BatchId,
  jobs: ReadonlyArray<NewJob>,
  subject: SubjectDigest | undefined
): Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError> => {
  const starts = Array.from({ length: Math.ceil(jobs.length / limits.batch) }, (_, piece) => piece * limits.batch)
  const request = (from: number) =>
    queue.enqueue(jobs.slice(from, from + limits.batch).map((job) => about(subject)({ ...job, batch }))).pipe(
      Effect.catchTags({
        InvalidJob: ({ field, index, reason }) =>
          Effect.fail(new InvalidJob({ index: index + from, jobs: jobs.length, field, reason })),
        JobIdTaken: ({ id, index }) => Effect.fail(new JobIdTaken({ index: index + from, jobs: jobs.length, id }))
      })
    )
  return Effect.map(Effect.forEach(starts, request), (answers) => answers.flat())
}

/** The follow-up as a job, with the counts in its `meta`. */
export const followUpJob = (
  followUp: FollowUp,
  { counts: { unfinished: _, ...counts }, id, total }: Pick<Batch, "id" | "total" | "counts">,
  subject: SubjectDigest | undefined
): NewJob => ({ ...followUp, meta: { batch: { id, total, ...counts }, ...subjectMeta(subject) } })

/** Decodes a page's cursor: the id of the last batch of the previous page. */
export const cursorOf = (cursor: string | undefined): Effect.Effect<Option.Option<string>, BadCursor> => {
  if (cursor === undefined) return Effect.succeed(Option.none())
  return isId(cursor) ? Effect.succeed(Option.some(cursor)) : Effect.fail(new BadCursor({ cursor }))
}
