import { Either } from "effect"
import { canonicalJson } from "../../core/CanonicalJson.js"
import type { InvalidJob } from "../../core/InvalidJob.js"
import { subjectKey, subjectMeta, subjectOf } from "../../core/Subject.js"
import { JobIdTaken, QueueFull } from "../JobErrors.js"
import { blank, type JobRow } from "../JobRowMemory.js"
import type { JobTable } from "../JobTableMemory.js"
import { admitAll, type NewJob, type StampedJob, type StampedJobs } from "../NewJob.js"
import { deduplicated, type Enqueued, enqueued } from "../Queue.js"

type Table = typeof JobTable.Service
type CapOf = (queue: string) => number | undefined

/** Compares what a job does, not when or how urgently it runs, which may have been edited since. */
const sameContent = (row: JobRow, job: StampedJob): boolean =>
  row.queue === job.queue &&
  row.kind === job.kind &&
  row.version === job.version &&
  canonicalJson(JSON.parse(row.payload)) === canonicalJson(JSON.parse(job.payload))

export const newRow = (job: StampedJob, now: number): JobRow => ({
  id: job.id,
  queue: job.queue,
  kind: job.kind,
  version: job.version,
  payload: job.payload,
  key: job.key ?? undefined,
  priority: job.priority,
  runAt: job.runAt,
  attempts: job.attempts,
  dedupe:
    job.dedupeKey === null || job.dedupeScope === null
      ? undefined
      : {
          key: job.dedupeKey,
          scope: job.dedupeScope,
          until: job.dedupeWindow === undefined ? undefined : now + job.dedupeWindow
        },
  createdAt: now,
  updatedAt: now,
  onDead: job.onDead ?? undefined,
  meta: job.meta ?? undefined,
  woken: job.woken ?? undefined,
  isChild: job.isChild === true,
  // Not first: V8 takes 50 microseconds to add this many fields to a copy, which is most of the time of an enqueue.
  ...blank,
  batch: job.batch ?? undefined
})

/** How far the clocks of processes may differ, in milliseconds. */
const clockError = 5_000

/** The row behind those of its key that come later and were due when they were stored, like the SQL function `behind_key`. */
const followingKey = (table: Table, row: JobRow): JobRow => {
  const { key, priority, queue, runAt } = row
  if (key === undefined || runAt > row.createdAt) return row
  const isLater = (other: JobRow) =>
    other.queue === queue &&
    other.key === key &&
    other.priority === priority &&
    (other.runAt > runAt || (other.runAt === runAt && other.id > row.id)) &&
    other.runAt < runAt + clockError &&
    other.runAt <= other.createdAt
  const later = [...table.pending(queue), ...table.running()].filter(isLater)
  if (later.length === 0) return row
  const next = Math.max(...later.map((other) => other.runAt)) + 0.001
  return { ...row, runAt: next, createdAt: Math.max(row.createdAt, next) }
}

const hasLapsed = ({ dedupe, status }: JobRow, now: number) =>
  dedupe?.until !== undefined && dedupe.until <= now && (status === "done" || status === "dead")

/** The job in the way of this one: the job with its id, or the holder of its dedupe key. */
const existingJob = (table: Table, { dedupeKey, id }: StampedJob, now: number): JobRow | undefined => {
  const holder = table.get(id) ?? (dedupeKey === null ? undefined : table.holderOf(dedupeKey))
  return holder === undefined || (holder.id !== id && hasLapsed(holder, now)) ? undefined : holder
}

/** Returns an error for the first queue that would exceed its depth cap. Jobs that exist need no room. */
const fullQueue = (table: Table, capOf: CapOf, jobs: StampedJobs, now: number): QueueFull | undefined => {
  for (const queue of new Set(jobs.map((job) => job.queue))) {
    const cap = capOf(queue)
    if (cap === undefined) continue
    const fresh = jobs.filter((job) => job.queue === queue && existingJob(table, job, now) === undefined)
    const coming = new Set(fresh.map(({ dedupeKey, id }) => (dedupeKey === null ? id : `key ${dedupeKey}`))).size
    // Sleeping executions do not count.
    const waiting = table.pending(queue).filter(({ runAt, woken }) => woken === undefined || runAt <= now)
    if (coming > 0 && waiting.length + coming > cap) return new QueueFull({ queue, cap })
  }
  return undefined
}

/** The new payload brings its subject, or that it has none. */
const metaOfReplaced = ({ meta = "{}" }: JobRow, by: StampedJob): string | undefined => {
  const { [subjectKey]: _, ...others } = JSON.parse(meta)
  const replaced = { ...others, ...subjectMeta(subjectOf(JSON.parse(by.meta ?? "{}"))) }
  return Object.keys(replaced).length === 0 ? undefined : JSON.stringify(replaced)
}

const storeOne = (table: Table, job: StampedJob, now: number): Enqueued => {
  const standing = existingJob(table, job, now)
  if (standing?.id === job.id) return enqueued(job.id)
  if (standing === undefined) {
    const lapsed = job.dedupeKey === null ? undefined : table.holderOf(job.dedupeKey)
    if (lapsed !== undefined) table.put({ ...lapsed, dedupe: undefined })
    table.put(followingKey(table, newRow(job, now)))
    table.tally.of(job.queue, job.kind).enqueued(1, now)
    return enqueued(job.id)
  }
  // This job's handler could not decode the payload of another kind. The steps of an execution belong to its payload.
  if (job.replace && standing.status === "pending" && standing.kind === job.kind && standing.woken === undefined) {
    const { payload, priority, runAt, version } = job
    table.put({ ...standing, payload, version, priority, runAt, meta: metaOfReplaced(standing, job), updatedAt: now })
  }
  return deduplicated(standing.id)
}

/** Stores jobs, all or none. Decides conflicts like the SQL function `store_job`. */
export const enqueueAll = (
  table: Table,
  capOf: CapOf,
  jobs: ReadonlyArray<NewJob>,
  now: number
): Either.Either<ReadonlyArray<Enqueued>, InvalidJob | JobIdTaken | QueueFull> =>
  Either.flatMap(
    admitAll(jobs, { ids: table.ids, now }),
    (admitted): Either.Either<ReadonlyArray<Enqueued>, JobIdTaken | QueueFull> => {
      for (const [index, job] of admitted.entries()) {
        const standing = table.get(job.id)
        if (standing !== undefined && !sameContent(standing, job)) {
          return Either.left(new JobIdTaken({ index, jobs: admitted.length, id: job.id }))
        }
      }
      const full = fullQueue(table, capOf, admitted, now)
      return full === undefined ? Either.right(admitted.map((job) => storeOne(table, job, now))) : Either.left(full)
    }
  )
