import { Array, Effect, Either, Layer } from "effect"
import { exact } from "../../core/Count.js"
import { isId, type JobId } from "../../core/Ids.js"
import { type State, type StoredJob, stateOf } from "../../core/StoredJob.js"
import { JobNotFound } from "../JobErrors.js"
import { type JobRow, toStored } from "../JobRowMemory.js"
import { JobTable } from "../JobTableMemory.js"
import type { JobFilter } from "./JobFilter.js"
import { matches } from "./JobMatch.js"
import {
  BadCursor,
  type JobPage,
  JobSearch,
  maxFound,
  minIdStart,
  type PageRequest,
  type QueueCounts
} from "./JobSearch.js"
import { compare, type IndirectSort, newestFirst, readCursor, sortValue, writeCursor } from "./JobSort.js"

type Table = typeof JobTable.Service

/** Ids increase with time. */
const byNewest = (left: JobRow, right: JobRow): number => (left.id < right.id ? 1 : -1)

const found = (table: Table, filter: JobFilter, now: number) =>
  [...table.rows()].filter((row) => matches(row, filter, now))

const newest = (table: Table, filter: JobFilter, now: number, among = Number.POSITIVE_INFINITY) =>
  [...table.rows()]
    .sort(byNewest)
    .slice(0, among)
    .filter((row) => matches(row, filter, now))

const pageOf = (rows: ReadonlyArray<JobRow>, limit: number, now: number): JobPage => {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  return {
    jobs: shown.map((row) => toStored(row, now)),
    next: last !== undefined && rows.length > limit ? last.id : undefined
  }
}

/** A page in an order other than by id. */
const sortedPage = (
  table: Table,
  filter: JobFilter,
  sort: IndirectSort,
  { cursor, limit }: PageRequest,
  now: number
): Either.Either<JobPage, BadCursor> => {
  const after = cursor === undefined ? undefined : readCursor(sort, cursor)
  if (cursor !== undefined && after === undefined) return Either.left(new BadCursor({ cursor }))
  const at = after?.at ?? now
  const placed = found(table, filter, at)
    .map((row) => ({ row, id: row.id, value: sortValue(row, sort.by, at) }))
    .filter((place) => after === undefined || (compare(sort, after, place) < 0 && place.id <= after.newest))
    .sort((a, b) => compare(sort, a, b))
  const shown = placed.slice(0, limit)
  const last = shown.at(-1)
  const newest = after?.newest ?? placed.reduce((id, place) => (place.id > id ? place.id : id), "")
  return Either.right({
    jobs: shown.map(({ row }) => toStored(row, now)),
    next: last !== undefined && placed.length > limit ? writeCursor(sort, { ...last, newest, at }) : undefined
  })
}

const countsOf = (queue: string, rows: ReadonlyArray<JobRow>, now: number): QueueCounts => {
  const ofState = (state: State) => exact(rows.filter((row) => stateOf(row, now) === state).length)
  const due = rows.filter(({ runAt, status }) => status === "pending" && runAt <= now)
  const oldestDueAt = due.length === 0 ? undefined : due.reduce((oldest, { runAt }) => Math.min(oldest, runAt), now)
  return {
    queue,
    counts: {
      scheduled: ofState("scheduled"),
      retrying: ofState("retrying"),
      pending: ofState("pending"),
      running: ofState("running"),
      done: ofState("done"),
      dead: ofState("dead"),
      cancelled: ofState("cancelled")
    },
    oldestDueAge: oldestDueAt === undefined ? undefined : now - oldestDueAt,
    oldestDueAt
  }
}

const allCounts = (table: Table, now: number) => {
  const queues = Array.groupBy(table.rows(), ({ queue }) => queue)
  return Object.entries(queues)
    .map(([queue, rows]) => countsOf(queue, rows, now))
    .sort((left, right) => (left.queue < right.queue ? -1 : 1))
}

const get = (table: Table, id: JobId, now: number) =>
  Either.fromNullable(table.get(id), () => new JobNotFound({ id })).pipe(Either.map((row) => toStored(row, now)))

/** Checks the job after every change, so that no polling is needed and the test clock does not have to move. */
const awaitEnd = (table: Table, id: JobId): Effect.Effect<StoredJob, JobNotFound> =>
  Effect.clockWith((clock) =>
    Effect.async<StoredJob, JobNotFound>((resume) => {
      const check = () => {
        const job = get(table, id, clock.unsafeCurrentTimeMillis())
        if (Either.isRight(job) && job.right.finishedAt === undefined) return
        stop()
        resume(job)
      }
      const stop = table.onChange(check)
      check()
      return Effect.sync(stop)
    })
  )

const make = (table: Table): typeof JobSearch.Service => ({
  get: (id) => Effect.flatten(table.atomically((now) => get(table, id, now))),
  list: (filter, request) =>
    Effect.flatten(
      table.atomically((now) => {
        const { among, cursor, limit, sort = newestFirst } = request
        const { by, descending } = sort
        if (by !== "created") return sortedPage(table, filter, { by, descending }, request, now)
        if (cursor !== undefined && !isId(cursor)) return Either.left(new BadCursor({ cursor }))
        const rows = newest(table, filter, now, among)
        const ordered = descending ? rows : rows.toReversed()
        const isAfter = ({ id }: JobRow) => cursor === undefined || (descending ? id < cursor : id > cursor)
        return Either.right(pageOf(ordered.filter(isAfter), limit, now))
      })
    ),
  find: (text) =>
    table.atomically((now) => {
      const isFound = ({ dedupe, finishedAt, id, key }: JobRow) =>
        (text.length >= minIdStart && id.startsWith(text.toLowerCase())) ||
        (dedupe?.key === text && (dedupe.scope === "retained" || finishedAt === undefined)) ||
        (key === text && finishedAt === undefined)
      const rows = [...table.rows()].filter(isFound).sort(byNewest)
      return rows.slice(0, maxFound).map((row) => toStored(row, now))
    }),
  total: (filter, cap) =>
    table.atomically((now) => {
      const { length } = found(table, filter, now)
      return { count: Math.min(length, cap), exact: length <= cap }
    }),
  counts: table.atomically((now) => allCounts(table, now)),
  overdue: (before) =>
    table.atomically(() => {
      const late = [...table.rows()].filter(({ runAt, status }) => status === "pending" && runAt <= before)
      return [...new Set(late.map(({ queue }) => queue))].sort()
    }),
  await: (id) => awaitEnd(table, id),
  awaitEnd: (id) => awaitEnd(table, id)
})

export const layer: Layer.Layer<JobSearch, never, JobTable> = Layer.effect(JobSearch, Effect.map(JobTable, make))
