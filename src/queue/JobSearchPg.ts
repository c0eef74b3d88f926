import type { Fragment } from "@effect/sql/Statement"
import { Clock, Effect, Layer } from "effect"
import { isId } from "../core/Ids.js"
import type { State } from "../core/Job.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { JobNotFound } from "./JobErrors.js"
import { BadCursor, type JobFilter, JobSearch, type QueueCounts } from "./JobSearch.js"
import { storedColumns } from "./JobSql.js"
import { isUnstorable } from "./NewJob.js"
import { type StoredJobRow, toStoredJob } from "./StoredJobRow.js"

/** How often a waiting caller looks: a job's end is not announced, and whoever waits for one waits longer than this. */
const awaitEvery = "200 millis"

const noCounts: Readonly<Record<State, number>> = {
  scheduled: 0,
  retrying: 0,
  pending: 0,
  running: 0,
  done: 0,
  dead: 0
}

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const table = sql(`${schema}.job`)
  const columns = sql.literal(storedColumns)

  const stateIs = (state: State, now: number): Fragment => {
    const at = sql`to_timestamp(${now}::float8 / 1000)`
    switch (state) {
      case "scheduled":
        return sql`j.finished_at is null and j.status = 'pending' and j.last_error is null and j.run_at > ${at}`
      case "pending":
        return sql`j.finished_at is null and j.status = 'pending' and j.last_error is null and j.run_at <= ${at}`
      case "retrying":
        return sql`j.finished_at is null and j.status = 'pending' and j.last_error is not null`
      case "running":
        return sql`j.finished_at is null and j.status = 'running'`
      default:
        return sql`j.finished_at is not null and j.status = ${state}`
    }
  }

  const conditions = (filter: JobFilter, now: number): ReadonlyArray<Fragment> => {
    // What cannot be stored is in no job.
    const texts = [
      filter.queue,
      filter.kind,
      filter.text,
      filter.payload === undefined ? "" : JSON.stringify(filter.payload)
    ]
    if (texts.some((text) => text !== undefined && (isUnstorable(text) || text.includes("\\u0000"))))
      return [sql`false`]
    const all: Array<Fragment> = [sql`true`]
    if (filter.queue !== undefined) all.push(sql`j.queue = ${filter.queue}`)
    if (filter.kind !== undefined) all.push(sql`j.kind = ${filter.kind}`)
    if (filter.state !== undefined) all.push(stateIs(filter.state, now))
    if (filter.deadReason !== undefined) all.push(sql`j.dead_reason = ${filter.deadReason}`)
    if (filter.since !== undefined) all.push(sql`j.created_at >= to_timestamp(${filter.since}::float8 / 1000)`)
    if (filter.until !== undefined) all.push(sql`j.created_at < to_timestamp(${filter.until}::float8 / 1000)`)
    if (filter.payload !== undefined) all.push(sql`j.payload @> ${JSON.stringify(filter.payload)}::jsonb`)
    if (filter.text !== undefined) all.push(sql`position(lower(${filter.text}) in lower(j.last_error)) > 0`)
    return all
  }

  const get: typeof JobSearch.Service.get = (id) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (!isId(id)) return yield* new JobNotFound({ id })
      const rows = yield* mapErrors(sql<StoredJobRow>`select ${columns} from ${table} j where j.id = ${id}`)
      return rows[0] === undefined ? yield* new JobNotFound({ id }) : toStoredJob(rows[0], now)
    })

  const list: typeof JobSearch.Service.list = (filter, { cursor, limit }) =>
    Effect.gen(function* () {
      if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
      const now = yield* Clock.currentTimeMillis
      // Ids rise with time, so the primary key gives the newest first, and a page begins where the last one ended.
      const after = cursor === undefined ? [] : [sql`j.id < ${cursor}`]
      const rows = yield* mapErrors(
        sql<StoredJobRow>`select ${columns} from ${table} j
          where ${sql.and([...conditions(filter, now), ...after])} order by j.id desc limit ${limit + 1}`
      )
      const page = rows.slice(0, limit)
      return {
        jobs: page.map((row) => toStoredJob(row, now)),
        next: rows.length > limit ? page.at(-1)?.id : undefined
      }
    })

  const total: typeof JobSearch.Service.total = (filter, cap) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* mapErrors(
        sql<{ count: number }>`select count(*)::int as count from
          (select 1 from ${table} j where ${sql.and(conditions(filter, now))} limit ${cap + 1}) counted`
      )
      const count = rows[0]?.count ?? 0
      return { count: Math.min(count, cap), exact: count <= cap }
    })

  const counts: typeof JobSearch.Service.counts = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const rows = yield* mapErrors(
      sql<{ queue: string; state: State; count: number; oldest: number | null }>`
        select queue, case when status <> 'pending' then status when last_error is not null then 'retrying'
            when run_at > to_timestamp(${now}::float8 / 1000) then 'scheduled' else 'pending' end as state,
          count(*)::int as count,
          floor(extract(epoch from min(run_at) filter (where status = 'pending')) * 1000)::float8 as oldest
        from ${table} group by 1, 2 order by 1`
    )
    const queues = new Map<string, QueueCounts>()
    for (const { count, oldest, queue, state } of rows) {
      const known = queues.get(queue) ?? { queue, counts: noCounts, oldestDueAge: undefined }
      const age = oldest === null || oldest > now ? undefined : now - oldest
      const ages = [known.oldestDueAge, age].filter((millis) => millis !== undefined)
      queues.set(queue, {
        queue,
        counts: { ...known.counts, [state]: count },
        oldestDueAge: ages.length === 0 ? undefined : Math.max(...ages)
      })
    }
    return [...queues.values()]
  })

  const ended: typeof JobSearch.Service.await = (id) =>
    Effect.flatMap(get(id), (job) =>
      job.status === "done" || job.status === "dead"
        ? Effect.succeed(job)
        : Effect.zipRight(Effect.sleep(awaitEvery), ended(id))
    )

  return JobSearch.of({ get, list, total, counts, await: ended })
})

export const layer: Layer.Layer<JobSearch, never, Database> = Layer.effect(JobSearch, make)
