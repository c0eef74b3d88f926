import { Array, Effect, Either, Layer } from "effect"
import { isId, type JobId } from "../core/Ids.js"
import { type State, type StoredJob, stateOf } from "../core/Job.js"
import { JobNotFound } from "./JobErrors.js"
import { type JobRow, toStored } from "./JobRowMemory.js"
import { BadCursor, type JobFilter, type JobPage, JobSearch, type QueueCounts } from "./JobSearch.js"
import { JobTable } from "./JobTableMemory.js"

type Table = typeof JobTable.Service

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** What `jsonb @>` means, below the top: there an array may also contain a bare value. */
const containsInside = (whole: unknown, part: unknown): boolean => {
  if (Array.isArray(part)) {
    return Array.isArray(whole) && part.every((each) => whole.some((other) => containsInside(other, each)))
  }
  if (isRecord(part)) {
    return (
      isRecord(whole) &&
      Object.entries(part).every(([key, value]) => Object.hasOwn(whole, key) && containsInside(whole[key], value))
    )
  }
  return whole === part
}

const contains = (whole: unknown, part: unknown): boolean =>
  containsInside(whole, part) || (Array.isArray(whole) && !isRecord(part) && whole.includes(part))

const matches = (row: JobRow, filter: JobFilter, now: number): boolean =>
  (filter.queue === undefined || row.queue === filter.queue) &&
  (filter.kind === undefined || row.kind === filter.kind) &&
  (filter.state === undefined || stateOf(row, now) === filter.state) &&
  (filter.deadReason === undefined || row.deadReason === filter.deadReason) &&
  (filter.since === undefined || row.createdAt >= filter.since) &&
  (filter.until === undefined || row.createdAt < filter.until) &&
  (filter.text === undefined || (row.lastError ?? "").toLowerCase().includes(filter.text.toLowerCase())) &&
  (filter.payload === undefined || contains(JSON.parse(row.payload), filter.payload))

/** Ids rise with time. */
const newestFirst = (left: JobRow, right: JobRow): number => (left.id < right.id ? 1 : -1)

const found = (table: Table, filter: JobFilter, now: number) =>
  [...table.rows()].filter((row) => matches(row, filter, now))

const pageOf = (rows: ReadonlyArray<JobRow>, limit: number, now: number): JobPage => {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  return {
    jobs: shown.map((row) => toStored(row, now)),
    next: last !== undefined && rows.length > limit ? last.id : undefined
  }
}

const countsOf = (queue: string, rows: ReadonlyArray<JobRow>, now: number): QueueCounts => {
  const ofState = (state: State) => rows.filter((row) => stateOf(row, now) === state).length
  const due = rows.filter(({ runAt, status }) => status === "pending" && runAt <= now)
  return {
    queue,
    counts: {
      scheduled: ofState("scheduled"),
      retrying: ofState("retrying"),
      pending: ofState("pending"),
      running: ofState("running"),
      done: ofState("done"),
      dead: ofState("dead")
    },
    oldestDueAge: due.length === 0 ? undefined : due.reduce((oldest, { runAt }) => Math.max(oldest, now - runAt), 0)
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

/** Looks at the job after every change, so nobody has to ask again and no clock has to move. */
const awaitEnd = (table: Table, id: JobId): Effect.Effect<StoredJob, JobNotFound> =>
  Effect.clockWith((clock) =>
    Effect.async<StoredJob, JobNotFound>((resume) => {
      const look = () => {
        const job = get(table, id, clock.unsafeCurrentTimeMillis())
        if (Either.isRight(job) && job.right.status !== "done" && job.right.status !== "dead") return
        stop()
        resume(job)
      }
      const stop = table.onChange(look)
      look()
      return Effect.sync(stop)
    })
  )

const make = (table: Table): typeof JobSearch.Service => ({
  get: (id) => Effect.flatten(table.step((now) => get(table, id, now))),
  list: (filter, { cursor, limit }) =>
    Effect.flatten(
      table.step((now) => {
        if (cursor !== undefined && !isId(cursor)) return Either.left(new BadCursor({ cursor }))
        const rows = found(table, filter, now).filter(({ id }) => cursor === undefined || id < cursor)
        return Either.right(pageOf(rows.sort(newestFirst), limit, now))
      })
    ),
  total: (filter, cap) =>
    table.step((now) => {
      const { length } = found(table, filter, now)
      return { count: Math.min(length, cap), exact: length <= cap }
    }),
  counts: table.step((now) => allCounts(table, now)),
  await: (id) => awaitEnd(table, id)
})

export const layer: Layer.Layer<JobSearch, never, JobTable> = Layer.effect(JobSearch, Effect.map(JobTable, make))
