import type { JobId, Lease } from "../../core/Ids.js"
import type { ClaimedJob } from "../Queue.js"

/** Columns that a claim returns, in order. Arrays instead of objects, because thousands of rows per second are read. */
export type ClaimedRow = readonly [
  id: JobId,
  kind: string,
  version: number,
  payload: unknown,
  key: string | null,
  attempt: number,
  maxAttempts: number,
  crashCount: number,
  meta: unknown,
  priority: number,
  createdAt: number,
  runAt: number,
  /** Null for plain jobs. */
  linked: readonly [woken: number, execution: string, cancelled: boolean] | null,
  /** Round-robin position, only for claims by key. */
  place?: number
]

const executionOf = (id: JobId, lease: Lease, linked: ClaimedRow[12]) =>
  linked === null || linked[0] < 0
    ? undefined
    : { woken: linked[0], id: linked[1], cancelled: linked[2], run: { id, lease } }

export const toClaimed =
  (queue: string, lease: Lease, now: number) =>
  (row: ClaimedRow): ClaimedJob => ({
    id: row[0],
    lease,
    queue,
    kind: row[1],
    version: row[2],
    payload: row[3],
    key: row[4] ?? undefined,
    attempt: row[5],
    maxAttempts: row[6],
    crashCount: row[7],
    meta: row[8] ?? undefined,
    execution: executionOf(row[0], lease, row[12]),
    linked: row[12] !== null,
    createdAt: row[10],
    runAt: row[11],
    startedAt: now
  })
