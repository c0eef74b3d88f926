import { Clock, Duration, Effect, Layer, Option } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { isId, type JobId, makeGenerator } from "../../core/Ids.js"
import { storableText } from "../../core/StorableText.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, DatabaseFault, DatabaseUnavailable, mapErrors } from "../../database/DatabaseError.js"
import { Signals } from "../../database/Signals.js"
import { fragments } from "../../database/SqlInstant.js"
import { Notifier } from "../Notifier.js"
import { JobSearch } from "../search/JobSearch.js"
import { Wakeups } from "../Wakeups.js"
import { cancelTopic } from "./JobAdmin.js"
import * as OperationBatchPg from "./OperationBatchPg.js"
import { type OperationRow, skippedOf, toOperation } from "./OperationRow.js"
import { operationColumns } from "./OperationSql.js"
import { OperationNotFound, Operations, operationTopic, type Target } from "./Operations.js"

const zeroId = "00000000-0000-0000-0000-000000000000"

/** Counting on would read the whole table for a number that only a bar of progress needs. */
const countedUpTo = 100_000

const purgeBatch = 1_000

/** How many running jobs of one batch are told of one by one. */
const mostTold = 100

/** Whether trying the same batch again can never help: then the operation ends, with the reason. */
const isHopeless = (error: DatabaseError) =>
  error instanceof DatabaseFault || (error instanceof DatabaseUnavailable && error.sqlState === "57014")

const make = Effect.gen(function* () {
  const database = yield* Database
  const search = yield* JobSearch
  const notifier = yield* Notifier
  const wakeups = yield* Wakeups
  const signals = yield* Signals
  const ids = yield* makeGenerator
  const { schema, sql, transaction } = database
  const table = sql(`${schema}.operation`)
  const columns = sql.literal(operationColumns)
  const batch = OperationBatchPg.make(database)
  const { instant } = fragments(sql)

  const totalOf = (target: Target) =>
    target.ids !== undefined
      ? Effect.succeed({ count: new Set(target.ids).size, exact: true })
      : search.total(target.filter, countedUpTo).pipe(Effect.catchTag("SearchTooSlow", () => Effect.succeed(undefined)))

  const begin: typeof Operations.Service.begin = ({ action, reason, target, who }) =>
    Effect.gen(function* () {
      const total = yield* totalOf(target)
      const now = yield* Clock.currentTimeMillis
      const named = target.ids === undefined ? null : [...new Set(target.ids)].sort()
      const [row] = yield* mapErrors(sql<OperationRow>`
        insert into ${table} (id, action, who, reason, filter, ids, created_at, updated_at, last_id, total, total_exact)
        values (${ids.plain(now)}, ${action}, ${storableText(who, 200)},
          ${reason === undefined ? null : storableText(reason, 1_000)},
          ${target.filter === undefined ? null : JSON.stringify(target.filter)}::jsonb, ${named}::uuid[],
          ${instant(now)}, ${instant(now)},
          coalesce((select id from ${sql(`${schema}.job`)} order by id desc limit 1), ${zeroId}::uuid),
          ${total?.count ?? null}, ${total?.exact ?? null})
        returning ${columns}`)
      if (row === undefined) return yield* Effect.dieMessage("an operation was not stored")
      yield* signals.tell(operationTopic, row.id)
      return toOperation(row)
    })

  /** The batch and how far it came are written together, so that whoever goes on knows exactly where. */
  const carryOn = (row: OperationRow, now: number) =>
    Effect.gen(function* () {
      const report = yield* batch(row, now)
      const skipped: Record<string, number> = { ...skippedOf(row) }
      for (const [why, count] of Object.entries(report.skipped)) skipped[why] = (skipped[why] ?? 0) + count
      const [after] = yield* mapErrors(sql<OperationRow>`
        update ${table} set done = done + ${report.done}, failed = failed + ${report.failed},
          skipped = ${JSON.stringify(skipped)}::jsonb, reached = ${report.reached}, updated_at = ${instant(now)},
          status = ${report.isLast ? "done" : "running"}, finished_at = ${report.isLast ? instant(now) : null}
        where id = ${row.id} returning ${columns}`)
      if (report.woken.size > 0) yield* notifier.stored(report.woken, true)
      return { after: after ?? row, woken: report.woken, stopped: report.stopped }
    })

  const giveUp = (row: OperationRow, error: DatabaseError, now: number) =>
    Effect.gen(function* () {
      yield* Effect.logError(`operation ${row.id} cannot go on`, error)
      const why =
        error instanceof DatabaseFault
          ? "The database refused a statement; the log says more."
          : "A batch took too long. Narrow the filter."
      const [after] = yield* mapErrors(sql<OperationRow>`
        update ${table} set status = 'failed', error = ${why}, updated_at = ${instant(now)}, finished_at = ${instant(now)}
        where id = ${row.id} returning ${columns}`)
      return { after: after ?? row, woken: new Set<string>(), stopped: [] as ReadonlyArray<JobId> }
    })

  const step: typeof Operations.Service.step = (id) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const only = id === undefined ? sql`true` : sql`id = ${id}`
      const went = yield* transaction(
        Effect.gen(function* () {
          // The one that has waited for longest: several take turns.
          const [row] = yield* mapErrors(sql<OperationRow>`
            select ${columns} from ${table} where finished_at is null and ${only}
            order by updated_at, id limit 1 for update skip locked`)
          if (row === undefined) return undefined
          return yield* transaction(carryOn(row, now)).pipe(
            Effect.catchIf(isHopeless, (error) => giveUp(row, error, now))
          )
        })
      )
      if (went === undefined) return Option.none()
      yield* Effect.forEach(went.woken, wakeups.wake, { discard: true })
      // Pods need not wait for their next heartbeat to find out; beyond some they do.
      const soon = went.stopped.slice(0, mostTold)
      yield* Effect.forEach(soon, (job) => signals.tell(cancelTopic, job), { discard: true })
      return Option.some(toOperation(went.after))
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

  const cancel: typeof Operations.Service.cancel = (id) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (!isId(id)) return yield* new OperationNotFound({ id })
      yield* mapErrors(sql`update ${table} set status = 'cancelled', updated_at = ${instant(now)},
        finished_at = ${instant(now)} where id = ${id} and finished_at is null`)
      return yield* get(id)
    })

  const purge: typeof Operations.Service.purge = (olderThan) =>
    Effect.gen(function* () {
      const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(olderThan)
      let sum = 0
      for (;;) {
        const gone = yield* mapErrors(sql`delete from ${table} where id in
          (select id from ${table} where finished_at < ${instant(before)} order by id limit ${purgeBatch}) returning 1`)
        sum += gone.length
        if (gone.length < purgeBatch) return sum
      }
    })

  return Operations.of({ begin, step, get, list, cancel, purge })
})

export const layer: Layer.Layer<Operations, never, Database | JobSearch | Notifier | Wakeups | Signals> = Layer.effect(
  Operations,
  make
)
