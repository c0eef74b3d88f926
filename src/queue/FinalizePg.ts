import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Effect, Option } from "effect"
import type { JobId } from "../core/Ids.js"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import * as ArrayText from "./ArrayText.js"
import type { AttemptEnd } from "./AttemptEnd.js"
import { errorText } from "./ErrorText.js"
import type { JobSql } from "./JobSql.js"
import type { LeaseBook } from "./LeaseBook.js"

const kept = (error: string | undefined) => (error === undefined ? null : errorText(error))

/** One end as the columns of the settling statement. */
const columnsOf = ({ end }: AttemptEnd) => {
  switch (end._tag) {
    case "Done":
      return {
        verb: "done",
        runAt: null,
        counted: true,
        error: null,
        remember: null,
        reason: null,
        result: end.result ?? null
      }
    case "Again":
      return {
        verb: "again",
        runAt: end.runAt,
        counted: end.counted,
        error: kept(end.error),
        remember: end.remember ?? null,
        reason: null,
        result: null
      }
    case "Dead":
      return {
        verb: "dead",
        runAt: null,
        counted: end.counted,
        error: kept(end.error),
        remember: end.remember ?? end.reason,
        reason: end.reason,
        result: null
      }
  }
}

const isPlainDone = ({ end }: AttemptEnd) => end._tag === "Done" && end.result === undefined

/**
 * Ends runs over PostgreSQL: the many that are simply done by a narrow statement, all others by a wider one.
 * `onPending` is told of queues that have jobs to run again, and of those of follow-ups.
 */
export const make = (
  database: typeof Database.Service,
  statements: JobSql,
  leases: LeaseBook,
  onPending: (queues: ReadonlySet<string>) => Effect.Effect<void, DatabaseError>
): ((ends: ReadonlyArray<AttemptEnd>) => Effect.Effect<ReadonlyArray<JobId>, DatabaseError>) => {
  const { sql } = database

  const finish = (ends: ReadonlyArray<AttemptEnd>, now: number) =>
    Effect.gen(function* () {
      const ids = ArrayText.ofPlain(ends.map(({ id }) => id))
      const held = ArrayText.ofPlain(ends.map(({ lease }) => lease))
      const over = ArrayText.ofPlain(leases.takeOver())
      const result = yield* mapErrors(sql.unsafe(statements.finish, [ids, held, now, over]).raw)
      if ((result as { readonly rowCount: number | null }).rowCount === ends.length) return [] as JobId[]
      const rows = yield* mapErrors(sql.unsafe<{ id: JobId }>(statements.notFinished, [ids, now]))
      return rows.map(({ id }) => id)
    })

  const settle = (ends: ReadonlyArray<AttemptEnd>, now: number) =>
    Effect.gen(function* () {
      const columns = ends.map(columnsOf)
      const rows = yield* mapErrors(
        sql.unsafe<{ id: JobId | null; queue: string; status: string }>(statements.settle, [
          ArrayText.ofPlain(ends.map(({ id }) => id)),
          ArrayText.ofPlain(ends.map(({ lease }) => lease)),
          ArrayText.ofTexts(columns.map(({ verb }) => verb)),
          ArrayText.ofNumbers(columns.map(({ runAt }) => runAt)),
          ArrayText.ofPlain(columns.map(({ counted }) => counted)),
          ArrayText.ofTexts(columns.map(({ error }) => error)),
          ArrayText.ofTexts(columns.map(({ remember }) => remember)),
          ArrayText.ofTexts(columns.map(({ reason }) => reason)),
          ArrayText.ofTexts(columns.map(({ result }) => result)),
          now
        ])
      )
      const pending = rows.filter(({ status }) => status === "pending" || status === "follow-up")
      if (pending.length > 0) yield* onPending(new Set(pending.map(({ queue }) => queue)))
      const ended = new Set(rows.map(({ id }) => id))
      return ends.filter(({ id }) => !ended.has(id)).map(({ id }) => id)
    })

  return (ends) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const plain = ends.filter(isPlainDone)
      const others = plain.length === ends.length ? [] : ends.filter((end) => !isPlainDone(end))
      const movedOn = plain.length === 0 ? [] : yield* finish(plain, now)
      if (others.length > 0) movedOn.push(...(yield* settle(others, now)))
      // In somebody's transaction the ends stand only once it commits, of which nothing is heard here.
      if (Option.isSome(yield* Effect.serviceOption(SqlClient.TransactionConnection))) leases.forget(ends)
      else leases.ended(ends)
      return movedOn
    })
}
