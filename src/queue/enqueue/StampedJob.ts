import type { JobId } from "../../core/Ids.js"
import * as SqlArrays from "../SqlArrays.js"
import type { AdmittedJob } from "./NewJob.js"

/** A validated job with its id and start time, ready to insert. */
export type StampedJob = AdmittedJob & {
  readonly id: JobId
  readonly runAt: number
  /** Whether the caller supplied the id, so that the job may already exist. */
  readonly ownId: boolean
}

export type StampedJobs = ReadonlyArray<StampedJob>

/** Whether the job needs the wide insert, because it may conflict or has additional columns. */
export const hasExtras = (job: StampedJob) =>
  job.ownId ||
  job.dedupeKey !== null ||
  job.key !== null ||
  job.onDead !== null ||
  job.meta !== null ||
  job.batch !== null ||
  job.woken !== null

/** Batches insert in key order: two batches with the same keys in opposite order would deadlock. */
export const byDedupeKey = (a: StampedJob, b: StampedJob) => {
  if (a.dedupeKey === b.dedupeKey) return 0
  if (a.dedupeKey === null) return -1
  return b.dedupeKey === null || a.dedupeKey > b.dedupeKey ? 1 : -1
}

/** Joins JSON texts into one JSON array; null becomes JSON null. */
export const jsonArray = (texts: ReadonlyArray<string | null>) => `[${texts.map((text) => text ?? "null").join(",")}]`

/** Maximum JSON text per statement: PostgreSQL rejects arrays of 256 MiB, and memory is limited on both ends. */
const statementCharacters = 16 * 1024 * 1024

/**
 * A batch's weight is its job count or its text size in units, whichever is larger, so it is full by count or by size.
 */
export const batchWeight = 2_000
const charactersPerUnit = statementCharacters / batchWeight

const charactersOf = ({ meta, onDead, payload }: StampedJob) =>
  payload.length + (onDead?.length ?? 0) + (meta?.length ?? 0)

export const weightOf = (jobs: StampedJobs): number => {
  let characters = 0
  for (const job of jobs) characters += charactersOf(job)
  return Math.max(jobs.length, characters / charactersPerUnit)
}

/** Splits the jobs, in order, into pieces that fit one statement. */
export const pieces = (jobs: StampedJobs): ReadonlyArray<StampedJobs> => {
  if (weightOf(jobs) <= batchWeight) return [jobs]
  const cut: Array<Array<StampedJob>> = []
  let characters = Number.POSITIVE_INFINITY
  for (const job of jobs) {
    characters += charactersOf(job)
    if (characters > statementCharacters) {
      cut.push([])
      characters = charactersOf(job)
    }
    cut.at(-1)?.push(job)
  }
  return cut
}

export const plainParameters = (jobs: StampedJobs, now: number) => [
  SqlArrays.ofPlain(jobs.map(({ id }) => id)),
  SqlArrays.ofPlain(jobs.map(({ queue }) => queue)),
  SqlArrays.ofTexts(jobs.map(({ kind }) => kind)),
  SqlArrays.ofPlain(jobs.map(({ version }) => version)),
  jsonArray(jobs.map(({ payload }) => payload)),
  SqlArrays.ofPlain(jobs.map(({ priority }) => priority)),
  SqlArrays.ofPlain(jobs.map(({ runAt }) => runAt)),
  SqlArrays.ofPlain(jobs.map(({ maxAttempts }) => maxAttempts)),
  now
]

/** Whether all jobs share kind, queue and settings. Most batches do, and half of the data sent would be its name. */
export const isUniform = (jobs: StampedJobs) => {
  const first = jobs[0]
  return (
    first !== undefined &&
    jobs.every(
      (job) =>
        job.kind === first.kind &&
        job.queue === first.queue &&
        job.version === first.version &&
        job.priority === first.priority &&
        job.maxAttempts === first.maxAttempts
    )
  )
}

/** Parameters of the uniform insert; `channel` is the NOTIFY channel, if any. */
export const uniformParameters = (jobs: StampedJobs, now: number, channel: string | null) => [
  SqlArrays.ofPlain(jobs.map(({ id }) => id)),
  jobs[0]?.queue,
  jobs[0]?.kind,
  jobs[0]?.version,
  jsonArray(jobs.map(({ payload }) => payload)),
  jobs[0]?.priority,
  SqlArrays.ofPlain(jobs.map(({ runAt }) => runAt)),
  jobs[0]?.maxAttempts,
  now,
  channel
]

/** Parameters of the wide insert; `wait` is the lock timeout for a held key, `channel` the NOTIFY channel, if any. */
export const fullParameters = (jobs: StampedJobs, now: number, wait: string | null, channel: string | null) => [
  ...plainParameters(jobs, now),
  SqlArrays.ofTexts(jobs.map(({ key }) => key)),
  SqlArrays.ofTexts(jobs.map(({ dedupeKey }) => dedupeKey)),
  SqlArrays.ofTexts(jobs.map(({ dedupeScope }) => dedupeScope)),
  SqlArrays.ofNumbers(jobs.map(({ dedupeWindow }) => (dedupeWindow === undefined ? null : now + dedupeWindow))),
  jsonArray(jobs.map(({ onDead }) => onDead)),
  jsonArray(jobs.map(({ meta }) => meta)),
  wait,
  SqlArrays.ofTexts(jobs.map(({ batch }) => batch)),
  SqlArrays.ofNumbers(jobs.map(({ woken }) => woken)),
  channel
]
