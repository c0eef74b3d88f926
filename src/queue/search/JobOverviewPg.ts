import { Clock, Effect, Layer } from "effect"
import { withoutTrace } from "../../core/ErrorText.js"
import { floorOf, type JobId } from "../../core/Ids.js"
import { type DeadReason, type Status, stateOf } from "../../core/StoredJob.js"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { fragments } from "../../database/SqlInstant.js"
import { BoundedQuery } from "./BoundedQuery.js"
import { group } from "./DeadGrouping.js"
import { errorCharacters, groupLimits, JobOverview, type ListedJob } from "./JobOverview.js"

interface ListedRow {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly status: Status
  readonly attempt: number
  readonly max_attempts: number
  readonly priority: number
  readonly run_at: number
  readonly updated_at: number
  readonly dead_reason: DeadReason | null
  readonly error: string | null
}

const toListed = (row: ListedRow, now: number): ListedJob => {
  const error = row.error ?? undefined
  return {
    id: row.id,
    queue: row.queue,
    kind: row.kind,
    state: stateOf(
      { status: row.status, runAt: row.run_at, lastError: error, reason: row.dead_reason ?? undefined },
      now
    ),
    attempt: row.attempt,
    attempts: row.max_attempts,
    priority: row.priority,
    runAt: row.run_at,
    updatedAt: row.updated_at,
    reason: row.dead_reason ?? undefined,
    error: error === undefined ? undefined : withoutTrace(error).slice(0, errorCharacters)
  }
}

/** Longest text that begins a stack trace: read this much more, to recognize it at the end. */
const traceMark = "\nCaused by: ".length

const newestFirst = (a: ListedJob, b: ListedJob) => b.updatedAt - a.updatedAt || (a.id < b.id ? 1 : -1)

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const bounded = yield* BoundedQuery
  const jobs = sql(`${schema}.job`)
  const leases = sql(`${schema}.lease`)
  const { instant, millis } = fragments(sql)
  const columns = sql`j.id, j.queue, j.kind, j.status, j.attempt, j.max_attempts, j.priority, j.dead_reason,
    ${millis("j.run_at")} as run_at,
    ${millis("j.updated_at")} as updated_at,
    left(j.last_error, ${sql.literal(String(errorCharacters + traceMark))}) as error`

  /** No index covers the last change. The indexes of new ids, finish times and leases together cover recent changes. */
  const changed: typeof JobOverview.Service.changed = (since, limit) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* bounded(sql<ListedRow & { readonly crowded: boolean }>`
        with stored as (
          select id from ${jobs} where id >= ${floorOf(since)} order by id desc limit ${limit}
        ), ended as (
          select id from ${jobs} where finished_at >= ${instant(since)}
          order by finished_at desc limit ${limit}
        ), begun as (
          select taken.id from (select jobs from ${leases} where id >= ${floorOf(since)} order by id desc limit ${limit}) l
          cross join unnest(l.jobs) as taken(id) limit ${limit}
        )
        select ${columns}, ((select count(*) from stored) >= ${limit} or (select count(*) from ended) >= ${limit}
          or (select count(*) from begun) >= ${limit}) as crowded
        from ${jobs} j where j.id in (select id from stored union select id from ended union select id from begun)`)
      return {
        jobs: rows.map((row) => toListed(row, now)).sort(newestFirst),
        sampled: rows.some(({ crowded }) => crowded)
      }
    })

  const deadGroups: typeof JobOverview.Service.deadGroups = (queue) =>
    Effect.gen(function* () {
      const only = queue === undefined ? sql`true` : sql`queue = ${queue}`
      const rows = yield* bounded(sql<{
        readonly id: JobId
        readonly kind: string
        readonly dead_reason: DeadReason
        readonly error: string | null
        readonly finished_at: number
      }>`
        select id, kind, dead_reason, left(last_error, 500) as error,
          ${millis("finished_at")} as finished_at
        from ${jobs} where dead_reason <> 'cancelled' and ${only} order by finished_at desc, id desc
        limit ${groupLimits.looked + 1}`)
      return group(
        rows.map(({ dead_reason, error, finished_at, id, kind }) => ({
          id,
          kind,
          reason: dead_reason,
          error: error ?? undefined,
          finishedAt: finished_at
        })),
        yield* Clock.currentTimeMillis
      )
    })

  const listed: typeof JobOverview.Service.listed = (ids) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* mapErrors(
        sql<ListedRow>`select ${columns} from ${jobs} j where j.id = any(${[...ids]}::uuid[])`
      )
      return rows.map((row) => toListed(row, now)).sort(newestFirst)
    })

  return JobOverview.of({ changed, deadGroups, listed })
})

export const layer: Layer.Layer<JobOverview, never, Database | BoundedQuery> = Layer.effect(JobOverview, make)
