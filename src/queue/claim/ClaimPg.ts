import { Duration, Effect } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { named } from "../../database/Statements.js"
import type { ClaimedJob, ClaimRequest } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import type { KnownQueues } from "../settings/KnownQueues.js"
import { formOf, type QueueRow } from "../settings/QueueRow.js"
import type { ClaimCursors } from "./ClaimCursor.js"
import { type ClaimedRow, toClaimed } from "./ClaimedRow.js"
import type { Take } from "./Claiming.js"
import * as ClaimKeysPg from "./ClaimKeysPg.js"
import * as ClaimLinePg from "./ClaimLinePg.js"
import * as ClaimSql from "./ClaimSql.js"
import type { HeldLeases } from "./HeldLeases.js"
import * as ScanSql from "./ScanSql.js"

/** An empty claim reads the queue's row again if the cached one is older than this. */
const rereadAfter = Duration.seconds(1)

// No generators here and in ClaimLinePg: on an idle pod, each of their steps delays the job.

/** Claims over PostgreSQL. */
export const make = (
  database: typeof Database.Service,
  known: typeof KnownQueues.Service,
  ids: IdGenerator,
  leases: HeldLeases,
  cursors: ClaimCursors
): ((request: ClaimRequest) => Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError>) => {
  const statements = named("claim", ClaimSql.make(database.schema))
  const scans = named("claim", ScanSql.make(database.schema))

  const take: Take = ({ cursor, keyed, limit, now, pod, queue, rated }, parameters) => {
    const lease = ids.lease(now)
    const text = ClaimSql.textOf(statements, { keyed, rated, journals: cursor.hasExecutions })
    return Effect.map(database.direct.rows(text, [queue, now, limit, lease, pod, ...parameters]), (rows) => {
      const claimed = (rows as unknown as ReadonlyArray<ClaimedRow>).map(toClaimed(queue, lease, now))
      claimed.sort((a, b) => a.place - b.place)
      leases.took(
        lease,
        claimed.map(({ job }) => job.id)
      )
      if (claimed.some(({ job }) => job.execution !== undefined)) cursor.hasExecutions = true
      return claimed
    })
  }

  const claimLine = ClaimLinePg.make(database, scans, take)
  const claimKeys = ClaimKeysPg.make(database, scans, take)

  const isClosed = (row: QueueRow | undefined, now: number) =>
    row !== undefined && (row.paused || (row.throttledUntil ?? 0) > now)

  const claimOpen = (request: ClaimRequest, row: QueueRow | undefined, now: number) => {
    const cursor = cursors.of(request.queue)
    cursor.useRevision(row?.revision)
    const form = formOf(row, now)
    const claimBy = (by: typeof form) =>
      (by.keyed ? claimKeys : claimLine)({ ...request, ...by, cursor, positions: cursor.positions, now })
    return Effect.flatMap(claimBy(form), (jobs) => {
      if (jobs.length > 0) return Effect.succeed(jobs)
      // The settings may have changed since the cached row was read.
      return Effect.flatMap(known.get(request.queue, rereadAfter), (last) => {
        const newer = formOf(last, now)
        return newer.keyed === form.keyed && newer.rated === form.rated ? Effect.succeed(jobs) : claimBy(newer)
      })
    })
  }

  /** Takes executions that pods with other releases have left to releases of this one. */
  const takeParked = ({ limit, pod, queue, releases = [] }: ClaimRequest, now: number) => {
    const lease = ids.lease(now)
    const given = [queue, now, limit, lease, pod, SqlArrays.ofTexts(releases)]
    return Effect.map(database.direct.rows(statements.parked, given), (rows) => {
      const claimed = (rows as unknown as ReadonlyArray<ClaimedRow>).map(toClaimed(queue, lease, now))
      const jobs = claimed.sort((a, b) => a.place - b.place).map(({ job }) => job)
      leases.took(
        lease,
        jobs.map(({ id }) => id)
      )
      return jobs
    })
  }

  const claimDue = (request: ClaimRequest, now: number) =>
    Effect.flatMap(known.get(request.queue, Duration.infinity), (row) =>
      isClosed(row, now)
        ? Effect.flatMap(known.get(request.queue, rereadAfter), (newer) =>
            isClosed(newer, now) ? Effect.succeed([]) : claimOpen(request, newer, now)
          )
        : claimOpen(request, row, now)
    )

  return (request) =>
    Effect.clockWith((clock) => {
      const now = clock.unsafeCurrentTimeMillis()
      if (request.releases === undefined || request.releases.length === 0) return claimDue(request, now)
      return Effect.flatMap(claimDue(request, now), (due) =>
        due.length >= request.limit
          ? Effect.succeed(due)
          : Effect.map(takeParked({ ...request, limit: request.limit - due.length }, now), (left) => [...due, ...left])
      )
    })
}
