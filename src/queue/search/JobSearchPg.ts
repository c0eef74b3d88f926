import { Clock, Effect, Layer } from "effect"
import { isId } from "../../core/Ids.js"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { JobNotFound } from "../JobErrors.js"
import { storedColumns } from "../JobSql.js"
import { type StoredJobRow, toStoredJob } from "../StoredJobRow.js"
import { BoundedQuery } from "./BoundedQuery.js"
import * as CountsPg from "./CountsPg.js"
import { conditions } from "./JobConditions.js"
import type { JobFilter } from "./JobFilter.js"
import { BadCursor, JobSearch } from "./JobSearch.js"

/** Poll interval of a waiting caller: the end of a job is not announced, and most waits are longer than this. */
const awaitEvery = "200 millis"

const scans = ({ dedupe, kind, payload, search, shape, text }: JobFilter) =>
  [dedupe, kind, payload, search, shape, text].some((field) => field !== undefined)

const make = Effect.gen(function* () {
  const database = yield* Database
  const bounded = yield* BoundedQuery
  const { schema, sql } = database
  const table = sql(`${schema}.job`)
  const columns = sql.literal(storedColumns)

  /** Only retrying, dead and cancelled jobs have an error. Each has an index, so other jobs need not be read. */
  const failed = sql`(select * from ${table} where finished_at is null and last_error is not null
    union all select * from ${table} where dead_reason <> 'cancelled'
    union all select * from ${table} where dead_reason = 'cancelled')`
  const source = ({ shape, text }: JobFilter) => (shape === undefined && text === undefined ? table : failed)

  const get: typeof JobSearch.Service.get = (id) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (!isId(id)) return yield* new JobNotFound({ id })
      const rows = yield* mapErrors(sql<StoredJobRow>`select ${columns} from ${table} j where j.id = ${id}`)
      return rows[0] === undefined ? yield* new JobNotFound({ id }) : toStoredJob(rows[0], now)
    })

  const list: typeof JobSearch.Service.list = (filter, { among, cursor, limit }) =>
    Effect.gen(function* () {
      if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
      const now = yield* Clock.currentTimeMillis
      // Ids increase with time, so the primary key returns the newest first, and a page continues after the cursor.
      const after = cursor === undefined ? [] : [sql`j.id < ${cursor}`]
      const jobs = among === undefined ? source(filter) : sql`(select * from ${table} order by id desc limit ${among})`
      const rows = yield* bounded(
        sql<StoredJobRow>`select ${columns} from ${jobs} j
          where ${sql.and([...conditions(database, filter, now), ...after])} order by j.id desc limit ${limit + 1}`,
        { scans: among === undefined && scans(filter) }
      )
      const page = rows.slice(0, limit)
      return {
        jobs: page.map((row) => toStoredJob(row, now)),
        next: rows.length > limit ? page.at(-1)?.id : undefined
      }
    })

  const total: typeof JobSearch.Service.total = (filter, cap, patience) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      // With `since`, scan the newest ids first, where the matching jobs are. Otherwise the order does not matter.
      const order = filter.since === undefined ? sql`` : sql`order by j.id desc`
      const rows = yield* bounded(
        sql<{ count: number }>`select count(*)::int as count from
          (select 1 from ${source(filter)} j where ${sql.and(conditions(database, filter, now))} ${order} limit ${cap + 1}) counted`,
        { scans: scans(filter), patience }
      )
      const count = rows[0]?.count ?? 0
      return { count: Math.min(count, cap), exact: count <= cap }
    })

  const ended: typeof JobSearch.Service.await = (id) =>
    Effect.flatMap(get(id), (job) =>
      job.status === "done" || job.status === "dead"
        ? Effect.succeed(job)
        : Effect.zipRight(Effect.sleep(awaitEvery), ended(id))
    )

  return JobSearch.of({ get, list, total, counts: CountsPg.make(database, bounded), await: ended })
})

export const layer: Layer.Layer<JobSearch, never, Database | BoundedQuery> = Layer.effect(JobSearch, make)
