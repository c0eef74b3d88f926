import { Duration } from "effect"
import type { JobRow } from "./JobRowMemory.js"
import type { JobTable } from "./JobTableMemory.js"
import { classesOf, covers } from "./Retention.js"
import type { QueueSettings } from "./settings/QueueSettings.js"
import type { QueueTable } from "./settings/QueuesMemory.js"

type Table = typeof JobTable.Service

const purgeWhere = (table: Table, finishedBefore: number, fits: (row: JobRow) => boolean): number => {
  const old = [...table.rows()].filter(
    (row) => row.finishedAt !== undefined && row.finishedAt < finishedBefore && fits(row)
  )
  for (const row of old) table.remove(row)
  return old.length
}

/** Deletes finished jobs past their retention. */
export const purgeAll = (
  table: Table,
  queues: ReadonlyArray<QueueSettings>,
  doneRetention: Duration.Duration,
  now: number
) => {
  const purged = { done: 0, dead: 0 }
  for (const group of classesOf(queues, doneRetention)) {
    purged[group.status] += purgeWhere(table, now - Duration.toMillis(group.keepFor), (row) => covers(group, row))
  }
  return purged
}

/** Whether there is a retention at all. */
const isAnyPurged = (queues: typeof QueueTable.Service, doneRetention: Duration.Duration): boolean => {
  if (Duration.isFinite(doneRetention)) return true
  for (const { retainDead, retainDone } of queues.rows.values())
    if (retainDead !== undefined || retainDone !== undefined) return true
  return false
}

/** When the next finished job can be deleted. Read again only after a change, because it is asked for at every instant of a test. */
export const nextPurge = (
  table: Table,
  queues: typeof QueueTable.Service,
  doneRetention: Duration.Duration
): (() => number) => {
  let seen: string | undefined
  let next = Number.POSITIVE_INFINITY
  return () => {
    if (!isAnyPurged(queues, doneRetention)) return Number.POSITIVE_INFINITY
    const retained = [...queues.rows.values()].map(({ retainDead, retainDone }) => [retainDead, retainDone].join())
    const version = `${table.changes()} ${retained.join()}`
    if (version === seen) return next
    seen = version
    next = Number.POSITIVE_INFINITY
    for (const { finishedAt, queue, status } of table.rows()) {
      if (finishedAt === undefined) continue
      const own = queues.rows.get(queue)
      const kept = status === "done" ? (own?.retainDone ?? doneRetention) : own?.retainDead
      // A job is deleted when it is older than its retention, not when it is exactly as old.
      if (kept !== undefined) next = Math.min(next, finishedAt + Duration.toMillis(kept) + 1)
    }
    return next
  }
}
