import { Duration, Effect } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { named } from "../../database/Statements.js"
import type { ClaimRequest } from "../Queue.js"
import type { KnownQueues } from "../settings/KnownQueues.js"
import { formOf, type QueueRow } from "../settings/QueueRow.js"
import type { ClaimCursors } from "./ClaimCursor.js"
import * as ClaimKeysPg from "./ClaimKeysPg.js"
import * as ClaimLinePg from "./ClaimLinePg.js"
import type { HeldLeases } from "./HeldLeases.js"
import * as ScanSql from "./ScanSql.js"
import * as TakePg from "./TakePg.js"

/** An empty claim reads the queue's row again if the cached one is older than this. */
const rereadAfter = Duration.seconds(1)

// No generators here and in ClaimLinePg: on an idle pod, each of their steps delays the job.

/** Claims over PostgreSQL. */
export const make = Effect.fnUntraced(function* (
  database: typeof Database.Service,
  known: typeof KnownQueues.Service,
  ids: IdGenerator,
  leases: HeldLeases,
  cursors: ClaimCursors
) {
  const statements = named("claim", ScanSql.make(database.schema))
  const scans = yield* ClaimLinePg.makeScans(database, statements)
  const takes = yield* TakePg.make(database, ids, leases)
  const claimLine = ClaimLinePg.make(scans, takes)
  const claimKeys = ClaimKeysPg.make(database, statements, scans, takes)

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
      return Effect.flatMap(known.getApart(request.queue, rereadAfter), (last) => {
        const newer = formOf(last, now)
        return newer.keyed === form.keyed && newer.rated === form.rated ? Effect.succeed(jobs) : claimBy(newer)
      })
    })
  }

  const claimDue = (request: ClaimRequest, now: number) =>
    Effect.flatMap(known.getApart(request.queue, Duration.infinity), (row) =>
      isClosed(row, now)
        ? Effect.flatMap(known.getApart(request.queue, rereadAfter), (newer) =>
            isClosed(newer, now) ? Effect.succeed([]) : claimOpen(request, newer, now)
          )
        : claimOpen(request, row, now)
    )

  return (request: ClaimRequest) =>
    Effect.clockWith((clock) => {
      const now = clock.unsafeCurrentTimeMillis()
      const { limit, releases = [] } = request
      if (releases.length === 0) return claimDue(request, now)
      return Effect.flatMap(claimDue(request, now), (due) =>
        due.length >= limit
          ? Effect.succeed(due)
          : Effect.map(takes.parked({ ...request, limit: limit - due.length }, releases, now), (left) => [
              ...due,
              ...left.map(({ job }) => job)
            ])
      )
    })
})
