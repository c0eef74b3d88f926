import type { Fragment } from "@effect/sql/Statement"
import { Clock, Effect, Layer } from "effect"
import { isId } from "../../core/Ids.js"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { named } from "../../database/Statements.js"
import { JobNotFound } from "../JobErrors.js"
import { storedColumns } from "../JobSql.js"
import { isUnstorable } from "../NewJob.js"
import { type StoredJobRow, toStoredJob } from "../StoredJobRow.js"
import { BoundedQuery } from "./BoundedQuery.js"
import * as CountsPg from "./CountsPg.js"
import { conditions } from "./JobConditions.js"
import { JobEnds } from "./JobEnds.js"
import { choices, type JobFilter, statesOf } from "./JobFilter.js"
import { BadCursor, JobSearch, maxFound, minIdStart, type PageRequest, SearchWindow } from "./JobSearch.js"
import {
  type IndirectSort,
  maxSearchedJobs,
  maxSortedJobs,
  newestFirst,
  orderingOf,
  readCursor,
  writeCursor
} from "./JobSort.js"
import * as SortedListPg from "./SortedListPg.js"

/** Whether a filter may have to read all jobs. Running jobs are listed by their leases, and are few. */
const scans = (filter: JobFilter) => {
  const { dedupe, kind, payload, pod, search, shape, text } = filter
  // An index has the dead jobs of a cause.
  if (shape !== undefined && statesOf(filter)?.every((state) => state === "dead") === true) return false
  const isRunning = statesOf(filter)?.every((state) => state === "running") ?? false
  return !isRunning && [dedupe, kind, payload, pod, search, shape, text].some((field) => field !== undefined)
}

const finished: ReadonlyArray<string> = ["done", "dead", "cancelled"]

/** Whether jobs in any of these states are few, and an index has them. */
const areExceptions = (filter: JobFilter) =>
  statesOf(filter)?.every((state) => state !== "pending" && state !== "done") ?? false

/** The first and the last id that begin with this text, if it is the beginning of an id. */
const idRange = (given: string): readonly [string, string] | undefined => {
  const text = given.toLowerCase()
  if (text.length < minIdStart) return undefined
  const [first, last] = ["0", "f"].map((digit) => `${text}${idShape.slice(text.length).replaceAll("0", digit)}`)
  return first !== undefined && last !== undefined && isId(first) && isId(last) ? [first, last] : undefined
}
const idShape = "00000000-0000-0000-0000-000000000000"

/** A row of a list that is not ordered by id. */
type PlacedRow = StoredJobRow & {
  readonly place: number | string | null
  /** How many jobs were sorted, and how many were searched to find them; only if no index has the order. */
  readonly looked?: number
  readonly searched?: number
  readonly newest?: string
}

/** The bound that the list has reached, if any. */
const boundOf = ({ looked = 0, searched = 0 }: PlacedRow) => {
  if (looked >= maxSortedJobs) return maxSortedJobs
  return searched > maxSearchedJobs ? maxSearchedJobs : undefined
}

const make = Effect.gen(function* () {
  const database = yield* Database
  const bounded = yield* BoundedQuery
  const ends = yield* JobEnds
  const { schema, sql } = database
  const table = sql(`${schema}.job`)
  const columns = sql.literal(storedColumns)
  const { lateQueues } = named("search", { lateQueues: SortedListPg.lateQueues(schema) })

  /** Only retrying, dead and cancelled jobs have an error. Each has an index, so other jobs need not be read. */
  const failed = (filter: JobFilter) => {
    const states = statesOf(filter)
    const parts = [
      ...(states === undefined || states.some((state) => !finished.includes(state))
        ? [sql`select * from ${table} where finished_at is null and last_error is not null`]
        : []),
      ...(states?.includes("dead") === false ? [] : [sql`select * from ${table} where dead_reason <> 'cancelled'`]),
      ...(states?.includes("cancelled") === false ? [] : [sql`select * from ${table} where dead_reason = 'cancelled'`])
    ]
    const [first = sql`select * from ${table} where false`, ...others] = parts
    return sql`(${others.reduce((all, part) => sql`${all} union all ${part}`, first)})`
  }
  const source = (filter: JobFilter) =>
    filter.shape === undefined && filter.text === undefined ? table : failed(filter)

  const get: typeof JobSearch.Service.get = (id) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (!isId(id)) return yield* new JobNotFound({ id })
      const rows = yield* mapErrors(sql<StoredJobRow>`select ${columns} from ${table} j where j.id = ${id}`)
      return rows[0] === undefined ? yield* new JobNotFound({ id }) : toStoredJob(rows[0], now)
    })

  const listSorted = (filter: JobFilter, sort: IndirectSort, { cursor, limit }: PageRequest) =>
    Effect.gen(function* () {
      const after = cursor === undefined ? undefined : readCursor(sort, cursor)
      if (cursor !== undefined && after === undefined) return yield* new BadCursor({ cursor })
      const now = yield* Clock.currentTimeMillis
      const at = after?.at ?? now
      const ordering = orderingOf(filter, sort)
      const queues = choices(filter.queue)
      const isFailed = filter.shape !== undefined || filter.text !== undefined
      const parts = { sql, table, columns, conditions: conditions(database, filter, at), sort, after, limit, now: at }
      const rows = yield* bounded(
        sql<PlacedRow>`${SortedListPg.query(orderingOf(filter, sort), parts, {
          queue: queues === undefined ? sql`true` : sql`j.queue = any(${[...queues]}::text[])`,
          source: isFailed || !scans(filter) ? source(filter) : undefined,
          onlyFinished: statesOf(filter)?.every((state) => finished.includes(state)) ?? false
        })}`,
        { scans: ordering === "sorted" || scans(filter) }
      )
      const page = rows.slice(0, limit)
      const last = page.at(-1)
      return {
        jobs: page.map((row) => toStoredJob(row, now)),
        next:
          last !== undefined && rows.length > limit
            ? writeCursor(sort, { value: last.place, id: last.id, newest: after?.newest ?? last.newest ?? last.id, at })
            : undefined,
        sortedAmong: last === undefined ? undefined : boundOf(last)
      }
    })

  const list: typeof JobSearch.Service.list = (filter, request) => {
    const { sort = newestFirst } = request
    const { by, descending } = sort
    return by === "created" ? listById(filter, descending, request) : listSorted(filter, { by, descending }, request)
  }

  /** The id at which a search stops. Undefined if there are no more jobs to search. */
  const edgeOf = (
    after: ReadonlyArray<Fragment>,
    direction: Fragment,
    window: number,
    timeout: PageRequest["timeout"]
  ) =>
    Effect.map(
      bounded(
        sql<{ id: string }>`select j.id from ${table} j where ${sql.and([sql`true`, ...after])}
          order by j.id ${direction} offset ${window - 1} limit 1`,
        { timeout }
      ),
      ([row]) => row?.id
    )

  const listById = (filter: JobFilter, descending: boolean, { among, cursor, limit, timeout }: PageRequest) =>
    Effect.gen(function* () {
      if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
      const now = yield* Clock.currentTimeMillis
      const window = yield* SearchWindow
      const [older, direction] = descending ? [sql`<`, sql`desc`] : [sql`>`, sql`asc`]
      // Ids increase with time, so the primary key returns the newest first, and a page continues after the cursor.
      const after = cursor === undefined ? [] : [sql`j.id ${older} ${cursor}`]
      const jobs = among === undefined ? source(filter) : sql`(select * from ${table} order by id desc limit ${among})`
      const isScan = among === undefined && scans(filter)
      const isWindowed = isScan && jobs === table && !areExceptions(filter)
      const edge = isWindowed ? yield* edgeOf(after, direction, window, timeout) : undefined
      const within = edge === undefined ? [] : [sql`not (j.id ${older} ${edge})`]
      const rows = yield* bounded(
        sql<StoredJobRow>`select ${columns} from ${jobs} j
          where ${sql.and([...conditions(database, filter, now), ...after, ...within])} order by j.id ${direction}
          limit ${limit + 1}`,
        { scans: isScan, timeout }
      )
      const page = rows.slice(0, limit)
      const isFull = rows.length > limit
      return {
        jobs: page.map((row) => toStoredJob(row, now)),
        next: isFull ? page.at(-1)?.id : edge,
        searched: isFull || edge === undefined ? undefined : window
      }
    })

  const find: typeof JobSearch.Service.find = (text) =>
    Effect.gen(function* () {
      if (isUnstorable(text)) return []
      const now = yield* Clock.currentTimeMillis
      const range = idRange(text)
      const byId =
        range === undefined
          ? sql``
          : sql`union all select id from ${table} where id between ${range[0]} and ${range[1]}`
      const keyed = sql`from ${table} j where j.key is not null and j.finished_at is null`
      const rows = yield* bounded(sql<StoredJobRow>`
        with recursive keyed(queue, number) as (
          (select j.queue, 1 ${keyed} order by j.queue limit 1)
          union all
          select next.queue, keyed.number + 1 from keyed cross join lateral (
            select j.queue ${keyed} and j.queue > keyed.queue order by j.queue limit 1
          ) next
          where keyed.number < 1000
        )
        select ${columns} from ${table} j where j.id in (
          select id from ${table} where dedupe_key = ${text} and (dedupe_scope = 'retained' or finished_at is null)
          union all
          select k.id from keyed cross join lateral (
            select j.id ${keyed} and j.queue = keyed.queue and j.key = ${text}
            order by j.priority, j.run_at, j.id limit ${maxFound}
          ) k
          ${byId}
        ) order by j.id desc limit ${maxFound}`)
      return rows.map((row) => toStoredJob(row, now))
    })

  const total: typeof JobSearch.Service.total = (filter, cap, timeout) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      // With `since`, scan the newest ids first, where the matching jobs are. Otherwise the order does not matter.
      const order = filter.since === undefined ? sql`` : sql`order by j.id desc`
      const rows = yield* bounded(
        sql<{ count: number }>`select count(*)::int as count from
          (select 1 from ${source(filter)} j where ${sql.and(conditions(database, filter, now))} ${order} limit ${cap + 1}) counted`,
        { scans: scans(filter), timeout }
      )
      const count = rows[0]?.count ?? 0
      return { count: Math.min(count, cap), exact: count <= cap }
    })

  const overdue: typeof JobSearch.Service.overdue = (before) =>
    Effect.map(mapErrors(sql.unsafe<{ queue: string }>(lateQueues, [before])), (rows) => rows.map(({ queue }) => queue))

  const counts = yield* CountsPg.make(database, bounded)

  return JobSearch.of({ get, list, find, total, overdue, counts, await: ends.wait, awaitEnd: ends.waitForEnd })
})

export const layer: Layer.Layer<JobSearch, never, Database | BoundedQuery | JobEnds> = Layer.effect(JobSearch, make)
