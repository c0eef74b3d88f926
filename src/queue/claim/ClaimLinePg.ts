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
  SqlArrays.ofTexts(starts.map(({ id }) => id))
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
  /** Queues in which this process has claimed a workflow execution. */
  const withExecutions = new Set<string>()

  const statementFor = (queue: string, rated: boolean) => {
    if (rated) return statements.lineRated
    return withExecutions.has(queue) ? statements.lineWithJournals : statements.line
  }

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

  // No generators: on an idle pod, each of their steps delays the job.
  const claimFrom = (cursor: ClaimCursor, rated: boolean, { limit, pod, queue }: ClaimRequest, now: number) => {
    if (cursor.from.length === 0) return Effect.succeed([])
    const lease = ids.lease(now)
    const parameters = [queue, now, limit, lease, pod, ...startsOf(cursor.from)]
    return Effect.map(direct.rows(statementFor(queue, rated), parameters), (found) => {
      const rows = (found as unknown as ReadonlyArray<ClaimedRow>).toSorted(rowOrder)
      leases.took(
        lease,
        rows.map((row) => row[0])
      )
      // A rated claim that returns too few jobs ran out of tokens and has not scanned the whole queue.
      cursor.took(lastsOf(rows), rows.at(-1)?.[9], rated || rows.length >= limit, now)
      const jobs = rows.map(toClaimed(queue, lease, now))
      if (jobs.some(({ execution }) => execution !== undefined)) withExecutions.add(queue)
      return jobs
    })
  }

  /** Claims after a rescan from the front. */
  const claimFromFront = (cursor: ClaimCursor, rated: boolean, request: ClaimRequest, now: number) =>
    Effect.zipRight(
      scanFromFront(database, statements, request.queue, cursor, now),
      Effect.suspend(() => claimFrom(cursor, rated, request, now))
    )

  return (
    request: ClaimRequest,
    cursor: ClaimCursor,
    rated: boolean,
    now: number
  ): Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError> => {
    const timed = Effect.flatMap(steadyNow, (began) =>
      Effect.tap(claimFromFront(cursor, rated, request, now), () =>
        Effect.map(steadyNow, (ended) => cursor.lookTook(ended - began))
      )
    )
    const first = cursor.isRescanDue(now) ? timed : claimFrom(cursor, rated, request, now)
    return Effect.flatMap(first, (jobs) => {
      if (jobs.length === request.limit && cursor.isProbeDue(now)) {
        return Effect.as(findPriorities(request.queue, cursor, now), jobs)
      }
      return jobs.length > 0 || !cursor.mayRescan(now)
        ? Effect.succeed(jobs)
        : claimFromFront(cursor, rated, request, now)
    })
  }
}
