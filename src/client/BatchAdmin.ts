import { Cause, Effect } from "effect"
import { type BatchId, isId } from "../core/Ids.js"
import { shown } from "../core/Storable.js"
import type { FollowUp } from "../core/StoredJob.js"
import * as Response from "../http/jobs/BatchView.js"
import type { Batch, DescribedBatch } from "../queue/batch/Batch.js"
import { Batches, BatchNotFound, maxBatchPage } from "../queue/batch/Batches.js"
import type { NewJob } from "../queue/NewJob.js"
import type { Engine, Ports } from "./Engine.js"
import { type Enqueueable, type Enqueued, type EnqueueOptions, enqueuedOf } from "./Enqueue.js"
import { fromCause } from "./FromCause.js"
import * as Listing from "./Listing.js"
import { checkKnown, namesOf, textOf } from "./Options.js"
import * as PlainFields from "./PlainFields.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/** Adds a job to the batch. The jobs are stored together, after the callback has returned or its promise has resolved. */
export type AddJob = <In>(
  job: Enqueueable<In, unknown>,
  payload: NoInfer<In>,
  options?: Omit<EnqueueOptions, "tx">
) => void

/** Options of `batches.create`. */
export interface BatchOptions {
  /** Shown in lists. */
  readonly name?: string | undefined
  /** Runs once when all jobs have ended: `otherJob.followUp(…)`. Its `meta.batch` has the counts. */
  readonly followUp?: FollowUp | undefined
  /** Whose data the batch holds, such as `customer:42`: that of all its jobs and of the follow-up, unless a job names another. [none] */
  readonly subject?: string | undefined
  /** A UUID. Makes the call idempotent: repeat it with the same id if the response was lost. */
  readonly id?: string | undefined
}

/** A batch and the number of its jobs in each state. `followUp.id` is the follow-up's job, once it is enqueued. */
export interface BatchView extends PlainFields.PlainFields<DescribedBatch> {}

/** Batches: many jobs of any kinds, one follow-up when all of them have ended. */
export interface BatchAdmin {
  /** Stores up to 10,000 jobs, all or none. */
  create(fill: (add: AddJob) => unknown, options?: BatchOptions): Promise<BatchView>
  /** Adds jobs to a batch that is still open. Safe from a handler of one of its jobs. */
  add(id: string, fill: (add: AddJob) => unknown): Promise<ReadonlyArray<Enqueued>>
  /** The batch with its counts. Rejects with BatchError if there is none with this id. */
  get(id: string): Promise<BatchView>
  /** All batches, newest first: an async iterable that reads them in pages. A page has at most 100. */
  list(options?: Listing.ListOptions): Listing.Listing<BatchView>
}

const listOptions = namesOf<Listing.ListOptions>({ limit: 0 })
const known = namesOf<BatchOptions>({ name: 0, followUp: 0, subject: 0, id: 0 })

const fieldsOf = PlainFields.of(Response.BatchView)

/** @internal */
export const viewOf = (batch: Batch): BatchView => fieldsOf(Response.described(batch))

type NewJobs = <In>(
  job: Enqueueable<In, unknown>,
  payloads: ReadonlyArray<In>,
  options: Omit<EnqueueOptions, "tx">
) => Promise<ReadonlyArray<NewJob>>

const idOf = (method: string, id: unknown): BatchId => {
  const text = textOf("id", `batches.${method}`, id)
  const given = text.toLowerCase()
  if (!isId(given)) throw fromCause(Cause.fail(new BatchNotFound({ id: text })))
  return given as BatchId
}

/** @internal */
export const make = ({ run }: Engine<Ports>, newJobs: NewJobs): BatchAdmin => {
  const filled = async (fill: (add: AddJob) => unknown): Promise<ReadonlyArray<NewJob>> => {
    if (typeof fill !== "function")
      throw new InvalidOptionError(
        "fill",
        `A batch takes a function that adds its jobs: (add) => add(job, payload), got ${shown(fill)}.`
      )
    const made: Array<Promise<ReadonlyArray<NewJob>>> = []
    let isFilled = false
    await fill((job, payload, options = {}) => {
      if (isFilled)
        throw new InvalidOptionError(
          "add",
          "add was called after the function that adds the jobs of the batch had ended. Await everything in it."
        )
      if ("tx" in options && options.tx !== undefined)
        throw new InvalidOptionError("tx", "A batch cannot join a transaction: its jobs do not take the option tx.")
      const jobs = newJobs(job, [payload], options)
      // Not awaited if the function fails.
      jobs.catch(() => {})
      made.push(jobs)
    })
    isFilled = true
    return (await Promise.all(made)).flat()
  }

  return {
    create: async (fill, options = {}) => {
      checkKnown(options, known, "an option of a batch")
      const jobs = await filled(fill)
      const given = { ...options, id: options.id as BatchId | undefined, jobs }
      return viewOf((await run(Effect.flatMap(Batches, (batches) => batches.create(given)))).batch)
    },
    add: async (given, fill) => {
      const id = idOf("add", given)
      const jobs = await filled(fill)
      const answers = await run(Effect.flatMap(Batches, (batches) => batches.add(id, jobs)))
      return answers.map((answer) => enqueuedOf(answer))
    },
    list: (options = {}) => {
      checkKnown(options, listOptions, "an option of list")
      return Listing.make(async ({ cursor, limit }) => {
        const request = { limit: Math.min(limit, maxBatchPage), cursor }
        const page = await run(Effect.flatMap(Batches, (batches) => batches.list(request)))
        return { items: page.batches.map(viewOf), next: page.next }
      }, options)
    },
    get: async (id) => viewOf(await run(Effect.flatMap(Batches, (batches) => batches.get(idOf("get", id)))))
  }
}
