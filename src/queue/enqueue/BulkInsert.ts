import { Either } from "effect"
import type { IdGenerator, JobId } from "../../core/Ids.js"
import { jsonText } from "../../core/Storable.js"
import { limits } from "../../core/StoredJob.js"
import * as ArrayText from "../ArrayText.js"
import * as IdArray from "../IdArray.js"
import { admit, faultOfFields, type NewJob } from "./NewJob.js"
import type { StampedJobs } from "./StampedJob.js"

// Many jobs of one kind in whose way nothing can stand: what they share is checked once and their payloads are written as one
// text, which costs half of doing it job by job. Whatever is unusual goes the long way, which also knows what to say.

/** Fewer gain nothing. */
const fewest = 50

export interface BulkInsert extends IdArray.NewIds {
  readonly first: NewJob
  readonly runAts: ReadonlyArray<number>
  /** All payloads, as one JSON array. */
  readonly payloads: string
}

/** `JSON.stringify` passes over these inside of an array, and refuses them alone. */
const isAbsent = (payload: unknown) =>
  payload === undefined ||
  typeof payload === "function" ||
  typeof payload === "symbol" ||
  (typeof payload === "object" && payload !== null && "toJSON" in payload)

const isLike = (first: NewJob) => (job: NewJob) =>
  job.kind === first.kind &&
  job.queue === first.queue &&
  job.version === first.version &&
  job.priority === first.priority &&
  job.maxAttempts === first.maxAttempts &&
  job.id === undefined &&
  job.key === undefined &&
  job.dedupe === undefined &&
  job.onDead === undefined &&
  job.meta === undefined &&
  !isAbsent(job.payload) &&
  (job.runAt === first.runAt || (job.runAt !== undefined && faultOfFields(job) === undefined))

/** The jobs as one bulk, if that is what they are. */
export const of = (jobs: ReadonlyArray<NewJob>, ids: IdGenerator, now: number): BulkInsert | undefined => {
  const [first] = jobs
  if (first === undefined || jobs.length < fewest || jobs.length > limits.batch) return undefined
  if (faultOfFields(first) !== undefined || !jobs.every(isLike(first))) return undefined
  // If all of them together are not too large, none of them is.
  const payloads = jsonText(
    jobs.map(({ payload }) => payload),
    limits.payloadBytes
  )
  if (Either.isLeft(payloads)) return undefined
  return {
    first,
    ...IdArray.make(ids, jobs.length, now),
    runAts: jobs.map(({ runAt }) => (runAt === undefined ? now : Math.floor(runAt))),
    payloads: payloads.right
  }
}

/** Parameters of the insert for jobs of one kind; `channel` is where other pods are told. */
export const parameters = ({ array, first, payloads, runAts }: BulkInsert, now: number, channel: string | null) => [
  array,
  first.queue,
  first.kind,
  first.version,
  payloads,
  first.priority ?? 0,
  // One that is missing is now.
  runAts.every((runAt) => runAt === now) ? "{}" : ArrayText.ofPlain(runAts),
  first.maxAttempts,
  now,
  channel
]

/** The jobs one by one, as those that may stand already. They are read back: nobody keeps them for a case that is so rare. */
export const asJobs = ({ first, ids, payloads, runAts }: BulkInsert): StampedJobs =>
  (JSON.parse(payloads) as ReadonlyArray<unknown>).flatMap((payload, place) => {
    const [admitted, id, runAt] = [admit({ ...first, payload }, place), ids[place], runAts[place]]
    return Either.isRight(admitted) && id !== undefined && runAt !== undefined
      ? [{ ...admitted.right, id, runAt, ownId: true }]
      : []
  })

/** The first of them in the order of the line: what a claim must not begin behind. */
export const front = ({ first, ids, runAts }: BulkInsert) => {
  const runAt = runAts.reduce((least, each) => Math.min(least, each), Number.POSITIVE_INFINITY)
  const id = ids[runAts.indexOf(runAt)] as JobId
  return { queue: first.queue, priority: first.priority ?? 0, runAt, id, key: null }
}
