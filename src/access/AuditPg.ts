import { Clock, Effect, Layer, Option } from "effect"
import { BadCursor } from "../core/BadCursor.js"
import { floorOf, isId, makeGenerator } from "../core/Ids.js"
import { Database, within } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { purged } from "../database/Purge.js"
import { fragments } from "../database/SqlInstant.js"
import { AfterCommit } from "../database/Transaction.js"
import { Audit, type AuditEntry, type AuditFilter, kept } from "./Audit.js"

const purgeBatch = 1_000

/** Milliseconds by which the time in an id may precede that of its entry. */
const clockSlack = 60_000

interface AuditRow extends Omit<AuditEntry, "reason"> {
  readonly reason: string | null
}

const toEntry = (row: AuditRow): AuditEntry => ({
  ...row,
  reason: row.reason ?? undefined,
  before: row.before ?? undefined,
  after: row.after ?? undefined
})

const make = Effect.gen(function* () {
  const database = yield* Database
  const { schema, sql } = database
  const ids = yield* makeGenerator
  const table = sql(`${schema}.audit`)
  const { instant, millis } = fragments(sql)

  const conditions = (filter: AuditFilter) => [
    sql`true`,
    ...(filter.who === undefined ? [] : [sql`who = ${filter.who}`]),
    ...(filter.act === undefined ? [] : [sql`(act = ${filter.act} or starts_with(act, ${`${filter.act}.`}))`]),
    ...(filter.target === undefined ? [] : [sql`target = ${filter.target}`]),
    // Ids start with their time. The bound on them lets the primary key skip older entries.
    ...(filter.since === undefined
      ? []
      : [sql`at >= ${instant(filter.since)} and id >= ${floorOf(filter.since - clockSlack)}`]),
    ...(filter.until === undefined ? [] : [sql`at < ${instant(filter.until)}`])
  ]

  const record: typeof Audit.Service.record = (change) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const { act, after, before, reason, target, who } = kept(change)
      yield* mapErrors(sql`insert into ${table} (id, at, who, act, target, reason, before, after)
        values (${change.id ?? ids.plain(now)}, ${instant(now)}, ${who}, ${act}, ${target}, ${reason}, ${before}::jsonb,
          ${after}::jsonb)`)
      // The lists that the operator reads next must show the change.
      const committed = yield* Effect.serviceOption(AfterCommit)
      if (database.replica !== undefined && Option.isSome(committed)) committed.value.push(database.replica.wrote)
    })

  const list: typeof Audit.Service.list = (filter, { cursor, limit }) =>
    Effect.gen(function* () {
      if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
      const after = cursor === undefined ? [] : [sql`id < ${cursor}`]
      const rows = yield* within(
        database,
        "5 seconds"
      )(
        sql<AuditRow>`select id, ${millis("at")} as at, who, act, target, reason, before,
            after
          from ${table} where ${sql.and([...conditions(filter), ...after])} order by id desc limit ${limit + 1}`
      )
      const entries = rows.slice(0, limit).map(toEntry)
      return { entries, next: rows.length > limit ? entries.at(-1)?.id : undefined }
    })

  const purge: typeof Audit.Service.purge = (olderThan) =>
    purged(olderThan, purgeBatch, (before) =>
      Effect.map(
        // Ids increase with time, so this order reads only the rows to delete.
        mapErrors(sql`delete from ${table} where id in
          (select id from ${table} where at < ${instant(before)} order by id limit ${purgeBatch}) returning id`),
        ({ length }) => length
      )
    )

  return Audit.of({ record, list, purge })
})

export const layer: Layer.Layer<Audit, never, Database> = Layer.effect(Audit, make)
