import { Clock, Effect, Either } from "effect"
import type { JobId } from "../core/Ids.js"
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
  readonly died_at: number
}

/** Reports dead jobs whose stored follow-up another program has written and no one can store. */
export const logUnsound = (ids: ReadonlyArray<JobId>): Effect.Effect<void> =>
  Effect.logError(`the follow-up of a dead job is invalid and was not stored: on_dead of ${ids.join(", ")}`)

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
          const { death, died_at, job_id } = row
          const made = compute(row)
          if (Either.isRight(made)) {
            const values = [job_id, death, JSON.stringify(made.right), died_at, now]
            stored.push(...(yield* mapErrors(sql.unsafe<(typeof stored)[number]>(statements.storeFollowUp, values))))
          } else {
            faults.push({ job: job_id, reason: made.left })
            yield* mapErrors(sql.unsafe(statements.postponeFollowUp, [job_id, death, now + followUpRetryMillis]))
          }
        }
        return faults
      })
    )
    for (const { kind, queue } of stored) tally.of(queue, kind).enqueued(1, now)
    if (stored.length > 0) yield* onPending(new Set(stored.map(({ queue }) => queue)))
    return { made: stored.length, failed }
  })
