import { Either } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { InvalidJob } from "../../core/InvalidJob.js"
import { JobIdTaken } from "../JobErrors.js"
import { blank, type JobRow } from "../JobRowMemory.js"
import type { JobTable } from "../JobTableMemory.js"
import { deduplicated, type Enqueued, enqueued } from "../Queue.js"
import { type AdmittedJob, admitAll, type NewJob } from "./NewJob.js"

type Table = typeof JobTable.Service

/** JSON with sorted keys: equal text for values that `jsonb` treats as equal. */
const canonical = (json: string): string =>
  JSON.stringify(JSON.parse(json), (_, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)))
      : value
  )

/** Compares what a job does, not when or how urgently it runs, which may have been edited since. */
const sameContent = (row: JobRow, job: AdmittedJob): boolean =>
  row.queue === job.queue &&
  row.kind === job.kind &&
  row.version === job.version &&
  canonical(row.payload) === canonical(job.payload)

export const newRow = (job: AdmittedJob, id: JobId, now: number): JobRow => ({
  id,
  queue: job.queue,
  kind: job.kind,
  version: job.version,
  payload: job.payload,
  key: job.key ?? undefined,
  priority: job.priority,
  runAt: job.runAt ?? now,
  maxAttempts: job.maxAttempts,
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
  // Not first: V8 takes 50 microseconds to add this many fields to a copy, which is most of the time of an enqueue.
  ...blank,
  batch: job.batch ?? undefined
})

const isOver = ({ status }: JobRow) => status === "done" || status === "dead"

const hasLapsed = (holder: JobRow, now: number) =>
  holder.dedupe?.until !== undefined && holder.dedupe.until <= now && isOver(holder)

/** Returns the job that holds the dedupe key. Releases the key if its window has expired. */
const holderAgainst = (table: Table, job: AdmittedJob, now: number): JobRow | undefined => {
  const holder = job.dedupeKey === null ? undefined : table.holderOf(job.dedupeKey)
  if (holder === undefined || !hasLapsed(holder, now)) return holder
  table.put({ ...holder, dedupe: undefined })
  return undefined
}

/** The jobs of a request that will be stored; existing ones do not count toward the depth cap. */
export const jobsToStore = (table: Table, jobs: ReadonlyArray<NewJob>, now: number): ReadonlyArray<NewJob> => {
  const keys = new Set<string>()
  return jobs.filter(({ dedupe, id }) => {
    if (id !== undefined && table.get(id) !== undefined) return false
    if (dedupe === undefined) return true
    const holder = table.holderOf(dedupe.key)
    const isHeld = keys.has(dedupe.key) || (holder !== undefined && !hasLapsed(holder, now))
    keys.add(dedupe.key)
    return !isHeld
  })
}

const storeOne = (table: Table, job: AdmittedJob, now: number): Enqueued => {
  const standing = job.id === undefined ? undefined : table.get(job.id)
  if (standing !== undefined) return enqueued(standing.id)
  const holder = holderAgainst(table, job, now)
  if (holder === undefined) {
    const id = job.id ?? table.ids.job(now)
    table.put(newRow(job, id, now))
    table.tally.of(job.queue, job.kind).enqueued(1, now)
    return enqueued(id)
  }
  // This job's handler could not decode the payload of another kind.
  if (job.replace && holder.status === "pending" && holder.kind === job.kind) {
    const { payload, priority, version } = job
    table.put({ ...holder, payload, version, priority, runAt: job.runAt ?? now, updatedAt: now })
  }
  return deduplicated(holder.id)
}

export const enqueueAll = (
  table: Table,
  jobs: ReadonlyArray<NewJob>,
  now: number
): Either.Either<ReadonlyArray<Enqueued>, InvalidJob | JobIdTaken> =>
  Either.flatMap(admitAll(jobs), (admitted): Either.Either<ReadonlyArray<Enqueued>, JobIdTaken> => {
    for (const [index, job] of admitted.entries()) {
      const standing = job.id === undefined ? undefined : table.get(job.id)
      if (standing !== undefined && !sameContent(standing, job)) {
        return Either.left(new JobIdTaken({ index, jobs: admitted.length, id: standing.id }))
      }
    }
    return Either.right(admitted.map((job) => storeOne(table, job, now)))
  })
