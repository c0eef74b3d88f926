import { Duration } from "effect"
import type { AttemptEnd } from "../AttemptEnd.js"
import type { JobRow } from "../JobRowMemory.js"
import { attemptsAt, fresh, type QueueRow } from "../settings/QueueRow.js"
import type { QueueTable } from "../settings/QueueTableMemory.js"

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
    if (isCalm) queues.rows.set(job.queue, { ...row, calmSince: now })
  }
  if (end._tag !== "Again" || end.cools === undefined) return
  if (end.cools.scope === "queue") {
    queues.rows.set(job.queue, coolQueue(row, end.cools.after, now))
  } else if (job.key !== undefined) {
    const until = now + (end.cools.after ?? flat)
    const keys = queues.cooling.get(job.queue) ?? new Map<string, number>()
    queues.cooling.set(job.queue, keys.set(job.key, Math.max(until, keys.get(job.key) ?? 0)))
    queues.rows.set(job.queue, { ...row, keysCoolingUntil: Math.max(until, row.keysCoolingUntil ?? 0) })
  }
}
