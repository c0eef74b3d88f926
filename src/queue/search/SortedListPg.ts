import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment, Identifier } from "@effect/sql/Statement"
import { State } from "../../core/StoredJob.js"
import { fragments, instant, micros } from "../../database/SqlInstant.js"
import {
  type IndirectSort,
  isText,
  type JobSort,
  maxSearchedJobs,
  maxSortedJobs,
  type Ordering,
  type SortCursor
} from "./JobSort.js"

// Queries of job lists that are not ordered by id. A page continues after the place of its last job: its value, then
// its id. Times are compared in microseconds, which is what PostgreSQL stores.

/** Maximum number of lanes (queue and priority) that a list by due time merges. */
const maxLanes = 1_000

export interface ListParts {
  readonly sql: SqlClient
  readonly table: Identifier
  /** Columns to select from `j`. */
  readonly columns: Fragment
  readonly conditions: ReadonlyArray<Fragment>
  readonly sort: IndirectSort
  readonly after: SortCursor | undefined
  readonly limit: number
  /** Time until which the duration of a running job is measured. */
  readonly now: number
}

const moment = (sql: SqlClient, value: unknown): Fragment => sql`pg_catalog.to_timestamp(${value}::float8 / 1000000)`

const direction = (sql: SqlClient, { descending }: JobSort) => sql.literal(descending ? "desc" : "asc")

/** After the cursor, for a time column with an index. */
const afterMoment = ({ after, sort, sql }: ListParts, column: string): ReadonlyArray<Fragment> =>
  after === undefined
    ? []
    : [
        sql`(${sql.literal(column)}, j.id) ${sql.literal(sort.descending ? "<" : ">")} (${moment(sql, after.value)}, ${after.id}::uuid)`
      ]

/** Due jobs of one lane are one range of the claim index; the lanes are merged. */
const byLanes = (parts: ListParts, queue: Fragment): Fragment => {
  const { columns, conditions, limit, sort, sql, table } = parts
  const order = sql`order by j.run_at ${direction(sql, sort)}, j.id ${direction(sql, sort)} limit ${limit + 1}`
  const inLane = sql`j.finished_at is null and j.queue = lane.queue and j.priority = lane.priority`
  return sql`
    with recursive lane(queue, priority, number) as (
      (select j.queue, j.priority, 1 from ${table} j where j.finished_at is null and ${queue}
      order by j.queue, j.priority limit 1)
      union all
      select next.queue, next.priority, lane.number + 1 from lane cross join lateral (
        select j.queue, j.priority from ${table} j
        where j.finished_at is null and ${queue} and (j.queue, j.priority) > (lane.queue, lane.priority)
        order by j.queue, j.priority limit 1
      ) next
      where lane.number < ${maxLanes}
    )
    select ${columns}, ${sql.literal(micros("j.run_at"))}::float8 as place from lane cross join lateral (
      select j.* from ${table} j where ${sql.and([inLane, ...conditions, ...afterMoment(parts, "j.run_at")])} ${order}
    ) j
    ${order}`
}

/** Queues with a waiting job that was due before `$1`. Reads the first entry of each lane. */
export const lateQueues = (schema: string): string => `
  with recursive lane(queue, priority, number) as (
    (select queue, priority, 1 from ${schema}.job where finished_at is null order by queue, priority limit 1)
    union all
    select next.queue, next.priority, lane.number + 1 from lane cross join lateral (
      select j.queue, j.priority from ${schema}.job j
      where j.finished_at is null and (j.queue, j.priority) > (lane.queue, lane.priority)
      order by j.queue, j.priority limit 1
    ) next
    where lane.number < ${maxLanes}
  )
  select distinct lane.queue from lane where exists (
    select from ${schema}.job j where j.finished_at is null and j.lease is null and j.queue = lane.queue
      and j.priority = lane.priority and j.run_at <= ${instant("$1")}
  )
  order by lane.queue`

const byFinish = (parts: ListParts): Fragment => {
  const { columns, conditions, limit, sort, sql, table } = parts
  const finished = sql`j.finished_at is not null`
  return sql`
    select ${columns}, ${sql.literal(micros("j.finished_at"))}::float8 as place from ${table} j
    where ${sql.and([finished, ...conditions, ...afterMoment(parts, "j.finished_at")])}
    order by j.finished_at ${direction(sql, sort)}, j.id ${direction(sql, sort)} limit ${limit + 1}`
}

/** The value of a job in an order. */
const sortExpression = ({ now, sort: { by }, sql }: ListParts): Fragment => {
  const time = (column: string) => sql.literal(`${micros(column)}::float8`)
  switch (by) {
    case "due":
      return time("j.run_at")
    case "finished":
      return time("j.finished_at")
    case "when":
      return time("coalesce(j.finished_at, case when j.status = 'running' then j.started_at end, j.run_at)")
    case "duration":
      return sql`case when j.status <> 'pending' then extract(epoch from
        coalesce(j.finished_at, ${fragments(sql).instant(now)}) - j.started_at)::float8 end`
    case "state": {
      const place = (state: State) => State.literals.indexOf(state)
      const [scheduled, retrying, pending] = [place("scheduled"), place("retrying"), place("pending")]
      return sql`(case j.status when 'running' then ${place("running")} when 'done' then ${place("done")}
        when 'dead' then case j.dead_reason when 'cancelled' then ${place("cancelled")} else ${place("dead")} end
        else case when j.last_error is not null then ${retrying}
          when j.run_at > ${fragments(sql).instant(now)} then ${scheduled} else ${pending} end end)::float8`
    }
    case "kind":
    case "queue":
      return sql.literal(`j.${by} collate "C"`)
    case "attempt":
    case "priority":
      return sql.literal(`j.${by}::float8`)
  }
}

/** After the cursor among the candidates `c`. Jobs without a value come last. */
const afterPlace = ({ after, sort, sql }: ListParts): Fragment => {
  if (after === undefined) return sql`true`
  const beyond = sql.literal(sort.descending ? "<" : ">")
  const later = sql`c.id ${beyond} ${after.id}::uuid`
  if (after.value === null) return sql`c.place is null and ${later}`
  const value = isText(sort.by) ? sql`${after.value}::text collate "C"` : sql`${after.value}::float8`
  return sql`(c.place is null or c.place ${beyond} ${value} or (c.place = ${value} and ${later}))`
}

/** Sorts the newest matching jobs. `source` is the relation to search. */
const bySorting = (parts: ListParts, source: Fragment | Identifier, searched: Fragment): Fragment => {
  const { after, columns, conditions, limit, sort, sql, table } = parts
  const known = after === undefined ? [] : [sql`j.id <= ${after.newest}::uuid`]
  const order = (alias: string) => {
    const to = direction(sql, sort)
    return sql`order by ${sql.literal("c.place")} ${to} nulls last, ${sql.literal(`${alias}.id`)} ${to}`
  }
  return sql`
    with candidates as materialized (
      select j.id, ${sortExpression(parts)} as place from ${source} j where ${sql.and([...conditions, ...known])}
      order by j.id desc limit ${maxSortedJobs}
    )
    select ${columns}, c.place, (select count(*)::int from candidates) as looked, ${searched} as searched,
      (select id from candidates order by id desc limit 1) as newest
    from (select * from candidates c where ${afterPlace(parts)} ${order("c")} limit ${limit + 1}) c
    join ${table} j on j.id = c.id ${order("j")}`
}

/** The jobs to search if no index supports the filter: the newest, or the latest finished ones if only those can match. */
const recent = ({ sql, table }: ListParts, onlyFinished: boolean) => {
  const where = onlyFinished ? sql`where finished_at is not null` : sql``
  const order = onlyFinished ? sql`order by finished_at desc` : sql`order by id desc`
  return {
    source: sql`(select * from ${table} ${where} ${order} limit ${maxSearchedJobs})`,
    searched: sql`(select count(*)::int from (select 1 from ${table} ${where} limit ${maxSearchedJobs + 1}) counted)`
  }
}

/** Returns the query of a page. */
export const query = (
  ordering: Ordering,
  parts: ListParts,
  filter: {
    /** Condition on the queue of `j`. */
    readonly queue: Fragment
    /** Where the matching jobs are; undefined if the filter may have to read all jobs. */
    readonly source: Fragment | Identifier | undefined
    readonly onlyFinished: boolean
  }
): Fragment => {
  if (ordering === "lanes") return byLanes(parts, filter.queue)
  if (ordering !== "sorted") return byFinish(parts)
  if (filter.source !== undefined) return bySorting(parts, filter.source, parts.sql`0`)
  const { searched, source } = recent(parts, filter.onlyFinished)
  return bySorting(parts, source, searched)
}
