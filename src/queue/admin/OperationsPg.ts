import { Clock, Effect, Layer, Option } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { isId, makeGenerator, zeroId } from "../../core/Ids.js"
import { storableText } from "../../core/Storable.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, DatabaseFault, DatabaseUnavailable, mapErrors } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { purged } from "../../database/Purge.js"
import { fragments } from "../../database/SqlInstant.js"
import { Tally } from "../../telemetry/Tally.js"
import { cancelTopic } from "../JobAdmin.js"
import { Notifier } from "../Notifier.js"
import { JobSearch } from "../search/JobSearch.js"
import { Wakeups } from "../Wakeups.js"
import * as OperationBatchPg from "./OperationBatchPg.js"
import { type OperationRow, rehearsalOf, skippedOf, toOperation } from "./OperationRow.js"
import { operationColumns } from "./OperationSql.js"
import {
  isUndoable,
  OperationNotFound,
  OperationNotUndoable,
  Operations,
  operationTopic,
  type Target,
  whyNotUndoable
} from "./Operations.js"
import * as Rehearsal from "./Rehearsal.js"

/** Counting further would read the whole table only for a progress bar. */
const countedUpTo = 100_000

const purgeBatch = 1_000

/** Maximum number of running jobs per batch that are signalled one by one. */
const maxSignalledJobs = 100

/** Whether a retry of the batch cannot succeed. The operation then fails with the reason. */
const isPermanent = (error: DatabaseError) =>
  error instanceof DatabaseFault || (error instanceof DatabaseUnavailable && error.sqlState === "57014")

const unchanged: Pick<OperationBatchPg.BatchReport, "woken" | "stopped" | "cancelled"> = {
  woken: new Set(),
  stopped: [],
  cancelled: []
}

const make = Effect.gen(function* () {
  const database = yield* Database
  const search = yield* JobSearch
  const notifier = yield* Notifier
  const wakeups = yield* Wakeups
  const hints = yield* Hints
  const tally = yield* Tally
  const ids = yield* makeGenerator
  const { schema, sql, transaction } = database
  const table = sql(`${schema}.operation`)
  const undos = sql(`${schema}.job_undo`)
  const columns = sql.literal(operationColumns)
  const batch = OperationBatchPg.make(database)
  const { instant } = fragments(sql)

  const totalOf = (target: Target) =>
    target.ids !== undefined
      ? Effect.succeed({ count: new Set(target.ids).size, exact: true })
      : search.total(target.filter, countedUpTo).pipe(Effect.catchTag("SearchTooSlow", () => Effect.succeed(undefined)))

  const begin: typeof Operations.Service.begin = ({ action, reason, rehearse, target, who }) =>
    Effect.gen(function* () {
      const total = yield* totalOf(target)
      const now = yield* Clock.currentTimeMillis
      const named = target.ids === undefined ? null : [...new Set(target.ids)].sort()
      const [row] = yield* mapErrors(sql<OperationRow>`
        insert into ${table} (id, action, who, reason, filter, ids, created_at, updated_at, last_id, total, total_exact,
          undoable, rehearsal)
        values (${ids.plain(now)}, ${action}, ${storableText(who, 200)},
          ${reason === undefined ? null : storableText(reason, 1_000)},
          ${target.filter === undefined ? null : JSON.stringify(target.filter)}::jsonb, ${named}::uuid[],
          ${instant(now)}, ${instant(now)},
          coalesce((select id from ${sql(`${schema}.job`)} order by id desc limit 1), ${zeroId}::uuid),
          ${total?.count ?? null}, ${total?.exact ?? null}, ${isUndoable(action, total)},
          ${rehearse === undefined ? null : JSON.stringify(Rehearsal.begin(rehearse))}::jsonb)
        returning ${columns}`)
      if (row === undefined) return yield* Effect.dieMessage("the operation was not stored")
      yield* hints.publish(operationTopic, row.id)
      return toOperation(row)
    })

  /** Stores the batch and its position in one transaction, so that the next batch continues exactly there. */
  const runBatch = (row: OperationRow, now: number) =>
    Effect.gen(function* () {
      const report = yield* batch(row, now)
      const skipped: Record<string, number> = { ...skippedOf(row) }
      for (const [why, count] of Object.entries(report.skipped)) skipped[why] = (skipped[why] ?? 0) + count
      const known = rehearsalOf(row)
      const rehearsal =
        known === undefined || Rehearsal.missing(known) === 0
          ? known
          : { ...known, ids: [...known.ids, ...report.changed] }
      const [after] = yield* mapErrors(sql<OperationRow>`
        update ${table} set done = done + ${report.done}, failed = failed + ${report.failed},
          skipped = ${JSON.stringify(skipped)}::jsonb, reached = ${report.reached}, updated_at = ${instant(now)},
          rehearsal = ${rehearsal === undefined ? null : JSON.stringify(rehearsal)}::jsonb,
          status = ${report.isLast ? "done" : "running"}, finished_at = ${report.isLast ? instant(now) : null}
        where id = ${row.id} returning ${columns}`)
      if (report.woken.size > 0) yield* notifier.stored(report.woken, true)
      return { ...report, after: after ?? row }
    })

  /** Looks at the jobs of a rehearsal. Returns undefined if nothing has changed since the last look. */
  const judgeRehearsal = (row: OperationRow, rehearsal: Rehearsal.Rehearsal, now: number) =>
    Effect.gen(function* () {
      const found = yield* mapErrors(sql<Rehearsal.RehearsedJob>`
        select status, last_error as "lastError", attempt, crash_count as "crashCount", dying is not null as "isDying",
          woken is not null and unknown_since is null and cut is not true as "isOfStep"
        from ${sql(`${schema}.job`)} where id = any(${[...rehearsal.ids]}::uuid[])`)
      const rehearsed = found.map((job) => ({ ...job, lastError: job.lastError ?? undefined }))
      const judged = Rehearsal.judge(rehearsal, rehearsed, now - row.updated_at)
      if (judged.error === undefined && JSON.stringify(judged.rehearsal) === JSON.stringify(rehearsal)) return undefined
      const isStopped = judged.error !== undefined
      const [after] = yield* mapErrors(sql<OperationRow>`
        update ${table} set rehearsal = ${JSON.stringify(judged.rehearsal)}::jsonb, updated_at = ${instant(now)},
          status = ${isStopped ? "failed" : "running"}, error = ${judged.error ?? null},
          finished_at = ${isStopped ? instant(now) : null}
        where id = ${row.id} returning ${columns}`)
      return { ...unchanged, after: after ?? row }
    })

  const failOperation = (row: OperationRow, error: DatabaseError, now: number) =>
    Effect.gen(function* () {
      yield* Effect.logError(`operation ${row.id} failed`, error)
      const why =
        error instanceof DatabaseFault
          ? "The database rejected a statement. See the log for details."
          : "A batch exceeded the statement timeout. Narrow the filter."
      const [after] = yield* mapErrors(sql<OperationRow>`
        update ${table} set status = 'failed', error = ${why}, updated_at = ${instant(now)}, finished_at = ${instant(now)}
        where id = ${row.id} returning ${columns}`)
      return { ...unchanged, after: after ?? row }
    })

  const step: typeof Operations.Service.step = (id) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const only = id === undefined ? sql`true` : sql`id = ${id}`
      const stepped = yield* transaction(
        Effect.gen(function* () {
          // Rehearsals whose jobs have not ended.
          const waiting: Array<string> = []
          for (;;) {
            // Least recently updated first, so that several operations take turns.
            const [row] = yield* mapErrors(sql<OperationRow>`
              select ${columns} from ${table} where finished_at is null and ${only} and id <> all(${waiting}::uuid[])
              order by updated_at, id limit 1 for update skip locked`)
            if (row === undefined) return undefined
            const rehearsal = rehearsalOf(row)
            if (!Rehearsal.isWaiting(rehearsal))
              return yield* transaction(runBatch(row, now)).pipe(
                Effect.catchIf(isPermanent, (error) => failOperation(row, error, now))
              )
            const judged = yield* judgeRehearsal(row, rehearsal, now)
            if (judged !== undefined) return judged
            waiting.push(row.id)
          }
        })
      )
      if (stepped === undefined) return Option.none()
      for (const { kind, queue } of stepped.cancelled) tally.of(queue, kind).died(1, "cancelled", now)
      yield* Effect.forEach(stepped.woken, wakeups.wake, { discard: true })
      // Signalled pods stop the job immediately; the others notice at their next heartbeat.
      const soon = stepped.stopped.slice(0, maxSignalledJobs)
      yield* Effect.forEach(soon, (job) => hints.publish(cancelTopic, job), { discard: true })
      return Option.some(toOperation(stepped.after))
    })

  const get: typeof Operations.Service.get = (id) =>
    Effect.gen(function* () {
      const rows = isId(id) ? yield* mapErrors(sql<OperationRow>`select ${columns} from ${table} where id = ${id}`) : []
      return rows[0] === undefined ? yield* new OperationNotFound({ id }) : toOperation(rows[0])
    })

  const list: typeof Operations.Service.list = ({ cursor, limit }) =>
    Effect.gen(function* () {
      if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
      const before = cursor === undefined ? sql`true` : sql`id < ${cursor}`
      const rows = yield* mapErrors(
        sql<OperationRow>`select ${columns} from ${table} where ${before} order by id desc limit ${limit + 1}`
      )
      const page = rows.slice(0, limit).map(toOperation)
      return { operations: page, next: rows.length > limit ? page.at(-1)?.id : undefined }
    })

  const undo: typeof Operations.Service.undo = (id, by) => transaction(beginUndo(id, by))

  const beginUndo: typeof Operations.Service.undo = (id, { reason, who }) =>
    Effect.gen(function* () {
      const operation = yield* get(id)
      // Of two callers, the second sees the undo of the first.
      yield* mapErrors(sql`select 1 from ${table} where id = ${id} for update`)
      const [kept] = yield* mapErrors(sql<{ count: number; last: string | null; is_undone: boolean }>`
        select count(*)::int as count, max(job_id::text) as last,
          exists (select from ${table} where undoes = ${id} and status in ('running', 'done')) as is_undone
        from ${undos} where act = ${id} and not below`)
      const now = yield* Clock.currentTimeMillis
      const { count = 0, is_undone: isUndone = false, last = null } = kept ?? {}
      const why = whyNotUndoable(operation, { isUndone, kept: count, now })
      if (why !== undefined) return yield* new OperationNotUndoable({ id, why })
      const [row] = yield* mapErrors(sql<OperationRow>`
        insert into ${table} (id, action, who, reason, undoes, created_at, updated_at, last_id, total, total_exact)
        values (${ids.plain(now)}, 'undo', ${storableText(who, 200)},
          ${reason === undefined ? null : storableText(reason, 1_000)}, ${id}, ${instant(now)}, ${instant(now)},
          ${last}, ${count}, true)
        returning ${columns}`)
      if (row === undefined) return yield* Effect.dieMessage("the operation was not stored")
      yield* hints.publish(operationTopic, row.id)
      return toOperation(row)
    })

  const cancel: typeof Operations.Service.cancel = (id) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (!isId(id)) return yield* new OperationNotFound({ id })
      yield* mapErrors(sql`update ${table} set status = 'cancelled', updated_at = ${instant(now)},
        finished_at = ${instant(now)} where id = ${id} and finished_at is null`)
      return yield* get(id)
    })

  const purge: typeof Operations.Service.purge = (olderThan) =>
    purged(olderThan, purgeBatch, (before) =>
      Effect.map(
        mapErrors(sql`delete from ${table} where id in
          (select id from ${table} where finished_at < ${instant(before)} order by id limit ${purgeBatch}) returning 1`),
        ({ length }) => length
      )
    )

  return Operations.of({ begin, undo, step, get, list, cancel, purge })
})

export const layer: Layer.Layer<Operations, never, Database | JobSearch | Notifier | Wakeups | Hints> = Layer.effect(
  Operations,
  make
)
