import { Clock, Effect } from "effect"
import type { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import type { JobSql } from "../JobSql.js"
import type { Queue } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import type { KnownQueues } from "../settings/KnownQueues.js"
import { opensAt } from "../settings/QueueRow.js"
import { type QueueColumns, toRow } from "../settings/QueueSql.js"
import type { ClaimCursors } from "./ClaimCursor.js"

type DueRow = QueueColumns & { readonly queue: string; readonly run_at: number | null; readonly name: string | null }

const hasRow = (row: DueRow): row is DueRow & QueueColumns => row.name !== null

/** Returns when each queue is worth a claim. One statement for all queues, which also refreshes their cached rows. */
export const make =
  (
    { sql }: typeof Database.Service,
    statements: JobSql,
    known: typeof KnownQueues.Service,
    cursors: ClaimCursors
  ): typeof Queue.Service.nextDue =>
  (queues) =>
    Effect.gen(function* () {
      const sentAt = yield* Clock.currentTimeMillis
      const blocked = new Map(queues.map((queue) => [queue, cursors.blocked(queue, sentAt)]))
      const rows = yield* mapErrors(
        sql.unsafe<DueRow>(statements.nextDue, [
          SqlArrays.ofTexts(queues),
          SqlArrays.ofPlain(queues.map((queue) => blocked.get(queue)?.seenUntil ?? 0))
        ])
      )
      const now = yield* Clock.currentTimeMillis
      const due = new Map<string, number>()
      for (const row of rows) {
        const settings = hasRow(row) ? toRow(row) : undefined
        if (settings !== undefined) known.saw(settings, sentAt)
        const opens = opensAt(settings, now)
        const first = Math.min(
          row.run_at ?? Number.POSITIVE_INFINITY,
          blocked.get(row.queue)?.until ?? Number.POSITIVE_INFINITY
        )
        if (opens === undefined || !Number.isFinite(first)) continue
        due.set(row.queue, opens > now ? Math.max(first, opens) : first)
      }
      return due
    })
