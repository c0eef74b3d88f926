import { Either } from "effect"
import type { IdGenerator, JobId } from "../../core/Ids.js"
import { jsonText } from "../../core/Storable.js"
import { limits } from "../../core/StoredJob.js"
import { admit, faultOfFields, type NewJob, type StampedJobs } from "../NewJob.js"
import * as SqlArrays from "../SqlArrays.js"

// Fast path for many jobs of one kind that cannot conflict: shared fields are validated once and payloads are encoded
// as one text, which costs half of encoding them one by one. All other requests take the general path, which also
// produces the error messages.

/** Below this number the fast path saves nothing. */
const fewest = 50

export interface BulkInsert extends SqlArrays.NewIds {
  readonly first: NewJob
  readonly runAts: ReadonlyArray<number>
  readonly payloads: string
}

/**
 * `JSON.stringify` drops or replaces these inside an array but rejects them at the top level, so the general path
 * handles them.
 */
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
  job.attempts === first.attempts &&
  job.id === undefined &&
  job.key === undefined &&
  job.dedupe === undefined &&
  job.onDead === undefined &&
  job.meta === undefined &&
  job.subject === undefined &&
  job.batch === undefined &&
  !isAbsent(job.payload) &&
  (job.runAt === first.runAt || (job.runAt !== undefined && faultOfFields(job) === undefined))

/** Returns the jobs as a bulk insert, or undefined if they do not qualify. */
export const of = (jobs: ReadonlyArray<NewJob>, ids: IdGenerator, now: number): BulkInsert | undefined => {
  const [first] = jobs
  if (first === undefined || jobs.length < fewest || jobs.length > limits.batch) return undefined
  if (faultOfFields(first) !== undefined || !jobs.every(isLike(first))) return undefined
  // If all payloads together are within the limit, each of them is.
  const payloads = jsonText(
    jobs.map(({ payload }) => payload),
    limits.payloadBytes
  )
  if (Either.isLeft(payloads)) return undefined
  return {
    first,
    ...SqlArrays.make(ids, jobs.length, now),
    runAts: jobs.map(({ runAt }) => (runAt === undefined ? now : Math.floor(runAt))),
    payloads: payloads.right
  }
}

/** Parameters of the uniform insert; `notification` is what the statement sends, if anything. */
export const parameters = (
  { array, first, payloads, runAts }: BulkInsert,
  now: number,
  notification: string | null
) => [
  array,
  first.queue,
  first.kind,
  first.version,
  payloads,
  first.priority ?? 0,
  // A missing start time means now.
  runAts.every((runAt) => runAt === now) ? "{}" : SqlArrays.ofPlain(runAts),
  first.attempts,
  now,
  notification
]

/**
 * The jobs one by one, for a retry in which they may already exist. Parsed again from the text, because retries are too
 * rare to keep the jobs in memory.
 */
export const asJobs = ({ first, ids, payloads, runAts }: BulkInsert): StampedJobs =>
  (JSON.parse(payloads) as ReadonlyArray<unknown>).flatMap((payload, place) => {
    const [id, now] = [ids[place] as JobId, runAts[place] as number]
    return Either.match(admit({ ...first, payload, id, runAt: now }, { ids: { job: () => id }, now }), {
      onLeft: () => [],
      onRight: (job) => [job]
    })
  })

/** The first of the jobs in queue order; the claim cursor must not be past it. */
export const front = ({ first, ids, runAts }: BulkInsert) => {
  const runAt = runAts.reduce((least, each) => Math.min(least, each), Number.POSITIVE_INFINITY)
  const id = ids[runAts.indexOf(runAt)] as JobId
  return { queue: first.queue, priority: first.priority ?? 0, runAt, id, key: null }
}
