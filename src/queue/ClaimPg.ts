import { Clock, Effect } from "effect"
import type { IdGenerator, JobId } from "../core/Ids.js"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import * as ArrayText from "./ArrayText.js"
import { ClaimCursor, type Start } from "./ClaimCursor.js"
import type { JobSql } from "./JobSql.js"
import type { LeaseBook } from "./LeaseBook.js"
import type { ClaimedJob, ClaimRequest } from "./Queue.js"

/** The columns that the claim returns, in its order. Arrays instead of objects: thousands of rows a second pass here. */
type ClaimRow = readonly [
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
  runAt: number
]

const rowOrder = (a: ClaimRow, b: ClaimRow) => a[9] - b[9] || a[11] - b[11] || (a[0] < b[0] ? -1 : 1)

/** The last row of each priority: where the next claim begins. */
const lastsOf = (rows: ReadonlyArray<ClaimRow>): ReadonlyMap<number, Start> => {
  const lasts = new Map<number, Start>()
  rows.forEach((row, place) => {
    const priority = row[9]
    if (rows[place + 1]?.[9] !== priority) lasts.set(priority, { priority, runAt: row[11], id: row[0] })
  })
  return lasts
}

export interface Claims {
  readonly claim: (request: ClaimRequest) => Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError>
  /** A job of this queue was stored or put back here. */
  readonly saw: (queue: string, job: Start) => void
  /** Jobs of this queue were put back somewhere behind. */
  readonly rescan: (queue: string) => void
}

/** Claims over PostgreSQL, each queue with a cursor of its own. */
export const make = (
  database: typeof Database.Service,
  statements: JobSql,
  ids: IdGenerator,
  leases: LeaseBook
): Claims => {
  const { sql } = database
  const cursors = new Map<string, ClaimCursor>()

  const cursorOf = (queue: string): ClaimCursor => {
    const known = cursors.get(queue)
    if (known !== undefined) return known
    const cursor = new ClaimCursor()
    cursors.set(queue, cursor)
    return cursor
  }

  const lookFromFront = (queue: string, cursor: ClaimCursor, now: number) =>
    Effect.map(mapErrors(sql.unsafe<{ priority: number }>(statements.priorities, [queue])), (rows) =>
      cursor.rescan(
        rows.map(({ priority }) => priority),
        now
      )
    )

  /** Priorities that others have begun to use since; only the gaps are searched, where no dead entries lie. */
  const lookBetween = (queue: string, cursor: ClaimCursor, now: number) => {
    const edges = [-32_769, ...cursor.priorities, 32_768]
    const gaps = [ArrayText.ofPlain(edges.slice(0, -1)), ArrayText.ofPlain(edges.slice(1))]
    return Effect.map(
      mapErrors(sql.unsafe<{ priority: number }>(statements.prioritiesBetween, [queue, ...gaps])),
      (rows) =>
        cursor.probed(
          rows.map(({ priority }) => priority),
          now
        )
    )
  }

  const claimFrom = (cursor: ClaimCursor, request: ClaimRequest, now: number) =>
    Effect.gen(function* () {
      const { limit, pod, queue } = request
      if (cursor.from.length === 0) return []
      const lease = ids.lease(now)
      const rows = (yield* mapErrors(
        sql.unsafe(statements.claim, [
          queue,
          ArrayText.ofPlain(cursor.priorities),
          ArrayText.ofPlain(cursor.from.map(({ runAt }) => runAt)),
          ArrayText.ofPlain(cursor.from.map(({ id }) => id)),
          now,
          limit,
          lease,
          pod
        ]).values
      )) as unknown as Array<ClaimRow>
      rows.sort(rowOrder)
      leases.took(
        lease,
        rows.map((row) => row[0])
      )
      cursor.took(lastsOf(rows), rows.at(-1)?.[9], rows.length >= limit, now)
      return rows.map(
        (row): ClaimedJob => ({
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
          createdAt: row[10],
          runAt: row[11],
          startedAt: now
        })
      )
    })

  return {
    claim: (request) =>
      Effect.gen(function* () {
        const cursor = cursorOf(request.queue)
        const now = yield* Clock.currentTimeMillis
        if (cursor.isRescanDue(now)) yield* lookFromFront(request.queue, cursor, now)
        const first = yield* claimFrom(cursor, request, now)
        if (first.length > 0) {
          if (first.length === request.limit && cursor.isProbeDue(now)) yield* lookBetween(request.queue, cursor, now)
          return first
        }
        if (!cursor.mayRescan(now)) return first
        yield* lookFromFront(request.queue, cursor, now)
        return yield* claimFrom(cursor, request, now)
      }),
    saw: (queue, job) => cursorOf(queue).saw(job),
    rescan: (queue) => void cursors.delete(queue)
  }
}
