import { Clock, Effect, Either } from "effect"
import type { JobId } from "../core/Ids.js"
import type { DeadReason } from "../core/StoredJob.js"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import type { Tally } from "../telemetry/Tally.js"
import type { JobSql } from "./JobSql.js"
import { followUpRetryMillis, followUpsPerPass, type Queue } from "./Queue.js"
import * as SqlArrays from "./SqlArrays.js"

interface DueRow {
  readonly job_id: JobId
  readonly death: number
  readonly kind: string
  readonly version: number
  readonly payload: unknown
  readonly dead_reason: DeadReason
  readonly error: string | null
  readonly died_at: number
}

/** Makes follow-ups after the death of their job. Taking and storing are one transaction, so each is made once. */
export const make = (
  { sql, transaction }: typeof Database.Service,
  statements: JobSql,
  tally: typeof Tally.Service,
  onPending: (queues: ReadonlySet<string>) => Effect.Effect<void, DatabaseError>
): (typeof Queue.Service)["makeFollowUps"] =>
  Effect.fnUntraced(function* (kinds, compute) {
    const now = yield* Clock.currentTimeMillis
    const stored: Array<{ readonly queue: string; readonly kind: string }> = []
    const failed = yield* transaction(
      Effect.gen(function* () {
        const rows = yield* mapErrors(
          sql.unsafe<DueRow>(statements.takeDueFollowUps, [SqlArrays.ofTexts(kinds), now, followUpsPerPass])
        )
        const faults: Array<{ readonly job: JobId; readonly reason: string }> = []
        for (const row of rows) {
          const { death, dead_reason, died_at, error, job_id, kind, payload, version } = row
          const made = compute({ kind, payload, version })
          if (Either.isRight(made)) {
            const values = [job_id, death, dead_reason, error, JSON.stringify(made.right), died_at, now]
            stored.push(...(yield* mapErrors(sql.unsafe<(typeof stored)[number]>(statements.storeFollowUp, values))))
          } else {
            faults.push({ job: job_id, reason: made.left })
            const values = [job_id, death, kind, version, JSON.stringify(payload), dead_reason, error, died_at]
            yield* mapErrors(sql.unsafe(statements.postponeFollowUp, [...values, now + followUpRetryMillis]))
          }
        }
        return faults
      })
    )
    for (const { kind, queue } of stored) tally.of(queue, kind).enqueued(1, now)
    if (stored.length > 0) yield* onPending(new Set(stored.map(({ queue }) => queue)))
    return { made: stored.length, failed }
  })
