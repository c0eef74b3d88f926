import { Effect } from "effect"
import { steadyNow } from "../../core/ChangeWatch.js"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import type { ClaimedJob, ClaimRequest } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import type { ClaimCursor, Start } from "./ClaimCursor.js"
import { type ClaimedRow, toClaimed } from "./ClaimedRow.js"
import type { ClaimSql } from "./ClaimSql.js"
import type { HeldLeases } from "./HeldLeases.js"

const rowOrder = (a: ClaimedRow, b: ClaimedRow) => a[9] - b[9] || a[11] - b[11] || (a[0] < b[0] ? -1 : 1)

/** The last row of each priority, where the next claim starts. */
const lastsOf = (rows: ReadonlyArray<ClaimedRow>): ReadonlyMap<number, Start> => {
  const lasts = new Map<number, Start>()
  rows.forEach((row, place) => {
    const priority = row[9]
    if (rows[place + 1]?.[9] !== priority) lasts.set(priority, { priority, runAt: row[11], id: row[0] })
  })
  return lasts
}

export const startsOf = (starts: ReadonlyArray<Start>): ReadonlyArray<string> => [
  SqlArrays.ofPlain(starts.map(({ priority }) => priority)),
  SqlArrays.ofPlain(starts.map(({ runAt }) => runAt)),
  SqlArrays.ofPlain(starts.map(({ id }) => id))
]

export const scanFromFront = (
  { direct }: typeof Database.Service,
  statements: ClaimSql,
  queue: string,
  cursor: ClaimCursor,
  now: number
): Effect.Effect<void, DatabaseError> =>
  Effect.map(direct.rows(statements.priorities, [queue]), (rows) =>
    cursor.rescan(
      rows.map(([priority]) => Number(priority)),
      now
    )
  )

/** Claims in queue order: priority, start time, id. */
export const make = (database: typeof Database.Service, statements: ClaimSql, ids: IdGenerator, leases: HeldLeases) => {
  const { direct, sql } = database

  /** Finds new priorities. Only searches the gaps between known ones, where there are no dead index entries. */
  const findPriorities = (queue: string, cursor: ClaimCursor, now: number) => {
    const edges = [-32_769, ...cursor.priorities, 32_768]
    const gaps = [SqlArrays.ofPlain(edges.slice(0, -1)), SqlArrays.ofPlain(edges.slice(1))]
    return Effect.map(
      mapErrors(sql.unsafe<{ priority: number }>(statements.prioritiesBetween, [queue, ...gaps])),
      (rows) =>
        cursor.probed(
          rows.map(({ priority }) => priority),
          now
        )
    )
  }

  // Not `Effect.gen`: see FinalizePg.
  const claimFrom = Effect.fnUntraced(function* (
    cursor: ClaimCursor,
    rated: boolean,
    { limit, pod, queue }: ClaimRequest,
    now: number
  ) {
    if (cursor.from.length === 0) return []
    const lease = ids.lease(now)
    const statement = rated ? statements.lineRated : statements.line
    const rows = (yield* direct.rows(statement, [
      queue,
      now,
      limit,
      lease,
      pod,
      ...startsOf(cursor.from)
    ])) as unknown as Array<ClaimedRow>
    rows.sort(rowOrder)
    leases.took(
      lease,
      rows.map((row) => row[0])
    )
    // A rated claim that returns too few jobs ran out of tokens and has not scanned the whole queue.
    cursor.took(lastsOf(rows), rows.at(-1)?.[9], rated || rows.length >= limit, now)
    return rows.map(toClaimed(queue, lease, now))
  })

  return Effect.fnUntraced(function* (
    request: ClaimRequest,
    cursor: ClaimCursor,
    rated: boolean,
    now: number
  ): Effect.fn.Return<ReadonlyArray<ClaimedJob>, DatabaseError> {
    const isDue = cursor.isRescanDue(now)
    const began = isDue ? yield* steadyNow : 0
    if (isDue) yield* scanFromFront(database, statements, request.queue, cursor, now)
    const first = yield* claimFrom(cursor, rated, request, now)
    if (isDue) cursor.lookTook((yield* steadyNow) - began)
    if (first.length > 0) {
      if (first.length === request.limit && cursor.isProbeDue(now)) yield* findPriorities(request.queue, cursor, now)
      return first
    }
    if (!cursor.mayRescan(now)) return first
    yield* scanFromFront(database, statements, request.queue, cursor, now)
    return yield* claimFrom(cursor, rated, request, now)
  })
}
