import { Duration } from "effect"
import type { AttemptEnd } from "../AttemptEnd.js"
import type { JobRow } from "../JobRowMemory.js"
import type { JobTable } from "../JobTableMemory.js"
import { attemptsAt, formOf, fresh, opensAt, type QueueRow, tokensAt, whole } from "../settings/QueueRow.js"
import type { QueueTable } from "../settings/QueuesMemory.js"

// Selects the jobs of a claim by the same rules as ClaimSql.

interface Tables {
  readonly jobs: typeof JobTable.Service
  readonly queues: typeof QueueTable.Service
}

interface Candidate {
  readonly row: JobRow
  readonly round: number
  readonly place: number
}

/** A job that has crashed is claimed alone, so that another crash is not blamed on other jobs. */
const unsuspected = (rows: ReadonlyArray<JobRow>): ReadonlyArray<JobRow> => {
  const suspect = rows.findIndex(({ crashCount }) => crashCount > 0)
  return suspect === -1 ? rows : rows.slice(0, Math.max(1, suspect))
}

const byId = (left: JobRow, right: JobRow) => (left.id < right.id ? -1 : 1)

/** A key's jobs in the order in which they may start. */
const lineOf = (waiting: ReadonlyArray<JobRow>, order: string, now: number): ReadonlyArray<JobRow> => {
  const due = waiting.filter(({ runAt }) => runAt <= now)
  if (order === "none") return due
  const begun = waiting.filter(({ startedAt }) => startedAt !== undefined)
  const first = begun.filter(({ runAt }) => runAt <= now).sort(byId)
  if (order === "strict" && begun.length > 0) return first
  return [...first, ...due.filter(({ startedAt }) => startedAt === undefined)]
}

const ofKeys = ({ jobs, queues }: Tables, queue: string, row: QueueRow, limit: number, now: number): Array<JobRow> => {
  const waiting = jobs.pending(queue)
  const last = queues.lastKey.get(queue) ?? ""
  const cooling = queues.cooling.get(queue)
  const running = jobs.running().filter((job) => job.queue === queue)
  const keys = [...new Set(waiting.flatMap(({ key }) => key ?? []))]
    .filter((key) => (cooling?.get(key) ?? 0) <= now)
    .sort((a, b) => Number(a <= last) - Number(b <= last) || (a < b ? -1 : 1))
  const ofKey = (key: string, index: number): ReadonlyArray<Candidate> => {
    const room =
      row.perKey === undefined ? limit : row.perKey.concurrency - running.filter((job) => job.key === key).length
    const own = waiting.filter((job) => job.key === key)
    return lineOf(own, row.perKey?.order ?? "none", now)
      .slice(0, Math.max(0, room))
      .map((job, round) => ({ row: job, round, place: index }))
  }
  const keyless = waiting
    .filter((job) => job.key === undefined && job.runAt <= now)
    .map((job, place) => ({ row: job, round: 0, place }))
  return [...keys.flatMap(ofKey), ...keyless]
    .sort(
      (a, b) =>
        a.row.priority - b.row.priority ||
        a.round - b.round ||
        a.place - b.place ||
        Number(a.row.key === undefined) - Number(b.row.key === undefined)
    )
    .map((candidate) => candidate.row)
}

/** The jobs that a claim with this limit takes now, in order. */
export const claimable = (tables: Tables, queue: string, most: number, now: number): ReadonlyArray<JobRow> => {
  const row = tables.queues.rows.get(queue)
  if (row !== undefined && (row.paused || (row.throttledUntil ?? 0) > now)) return []
  const limit = row === undefined ? most : Math.min(most, whole(tokensAt(row, now)))
  const line =
    row !== undefined && formOf(row, now).keyed
      ? ofKeys(tables, queue, row, limit, now)
      : tables.jobs.pending(queue).filter(({ runAt }) => runAt <= now)
  return unsuspected(line.slice(0, limit))
}

/** Records a claim in the queue and key tables. */
export const took = ({ queues }: Tables, queue: string, jobs: ReadonlyArray<JobRow>, now: number): void => {
  const row = queues.rows.get(queue)
  const lastKey = jobs.findLast(({ key }) => key !== undefined)?.key
  if (lastKey !== undefined) queues.lastKey.set(queue, lastKey)
  if (row?.rate === undefined || jobs.length === 0) return
  const filledAt = Math.max(now, row.bucket?.filledAt ?? now)
  queues.put({ ...row, bucket: { tokens: tokensAt(row, now) - jobs.length, filledAt } })
}

/** Returns when a claim is worthwhile; undefined if no job waits, or the time is unknown. */
export const nextDue = (tables: Tables, queue: string, now: number): number | undefined => {
  const waiting = tables.jobs.pending(queue)
  const opens = opensAt(tables.queues.rows.get(queue), now)
  if (waiting.length === 0 || opens === undefined) return undefined
  const first = Math.min(...waiting.map(({ runAt }) => runAt))
  if (opens > now) return Math.max(opens, first)
  if (claimable(tables, queue, 1, now).length > 0) return first
  const cooling = [...(tables.queues.cooling.get(queue)?.values() ?? [])]
  const later = [...waiting.map(({ runAt }) => runAt), ...cooling].filter((instant) => instant > now)
  return later.length === 0 ? undefined : Math.min(...later)
}

type Queues = typeof QueueTable.Service

const flat = 60_000

/** Cool-down if the upstream gives no delay: the queue's own backoff if it has one. */
const pauseOf = (row: QueueRow, now: number): number =>
  row.backoff.enabled
    ? Math.min(
        Duration.toMillis(row.backoff.max),
        Duration.toMillis(row.backoff.base) * 2 ** Math.min(attemptsAt(row, now), 30)
      )
    : flat

/**
 * A delay given by the upstream is used as is. Without one, the backoff curve applies; while the queue is cooling down,
 * another such job neither extends the cool-down nor counts.
 */
const coolQueue = (row: QueueRow, after: number | undefined, now: number): QueueRow => {
  const open = row.throttledUntil
  if (open !== undefined && open > now) return { ...row, throttledUntil: Math.max(open, now + (after ?? 0)) }
  const attempts = attemptsAt(row, now)
  return {
    ...row,
    throttledUntil: now + (after ?? pauseOf(row, now)),
    throttleAttempts: after === undefined ? Math.min(attempts + 1, 1000) : attempts,
    calmSince: undefined
  }
}

/** Applies the effects of an end beyond its own job. */
export const ended = (queues: Queues, job: JobRow, { end }: AttemptEnd, now: number): void => {
  const row = queues.rows.get(job.queue) ?? fresh(job.queue)
  if (end._tag === "Done") {
    const isCalm = row.throttleAttempts > 0 && row.calmSince === undefined && (row.throttledUntil ?? 0) <= now
    if (isCalm) queues.put({ ...row, calmSince: now })
  }
  if (end._tag !== "Again" || end.cools === undefined) return
  if (end.cools.scope === "queue") {
    queues.put(coolQueue(row, end.cools.after, now))
  } else if (job.key !== undefined) {
    const until = now + (end.cools.after ?? flat)
    const keys = queues.cooling.get(job.queue) ?? new Map<string, number>()
    queues.cooling.set(job.queue, keys.set(job.key, Math.max(until, keys.get(job.key) ?? 0)))
    queues.put({ ...row, keysCoolingUntil: Math.max(until, row.keysCoolingUntil ?? 0) })
  }
}
