import { Clock, Duration, Effect, FiberRef, Layer, Option } from "effect"
import { type BatchId, type JobId, makeGenerator } from "../../core/Ids.js"
import { ownSubject } from "../../core/OwnSubject.js"
import type { SubjectDigest } from "../../core/Subject.js"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { fragments, millis } from "../../database/SqlInstant.js"
import { digestOf, eraseBatch } from "../../database/SubjectText.js"
import type { NewJob } from "../NewJob.js"
import { type Enqueued, Queue } from "../Queue.js"
import { followUpOf } from "../StoredJobRow.js"
import {
  type Batch,
  BatchClosed,
  type BatchCounts,
  Batches,
  BatchNotFound,
  batchTopic,
  checked,
  cursorOf,
  enqueueIn,
  followUpJob
} from "./Batches.js"

interface BatchRow {
  readonly id: BatchId
  readonly name: string | null
  readonly created_at: number
  readonly closed_at: number | null
  readonly total: number
  readonly follow_up: unknown
  readonly follow_up_id: string | null
  readonly counts: Omit<BatchCounts, "unfinished"> | null
  readonly unfinished: number
  readonly done: number
  readonly dead: number
  readonly cancelled: number
  readonly subject: string | null
}

const toBatch = (row: BatchRow): Batch => {
  const { cancelled, dead, done, unfinished } = row
  const deleted = Math.max(0, row.total - unfinished - done - dead - cancelled)
  return {
    id: row.id,
    name: row.name ?? undefined,
    createdAt: row.created_at,
    closedAt: row.closed_at ?? undefined,
    total: row.total,
    counts: row.counts === null ? { unfinished, done, dead, cancelled, deleted } : { unfinished: 0, ...row.counts },
    followUp: followUpOf(row.follow_up),
    followUpId: row.follow_up_id ?? undefined
  }
}

/** Maximum number of batches to close per query. */
const closeBatch = 100

const purgeBatch = 1_000

const make = Effect.gen(function* () {
  const { schema, sql, transaction } = yield* Database
  const queue = yield* Queue
  const hints = yield* Hints
  const ids = yield* makeGenerator
  const { instant } = fragments(sql)
  const table = sql(`${schema}.batch`)
  const jobs = sql(`${schema}.job`)
  const columns = sql.literal(
    `b.id, b.name, ${millis("b.created_at")} as created_at, ${millis("b.closed_at")} as closed_at, b.total, b.follow_up,
    b.follow_up_id, b.counts, b.subject, n.unfinished, n.done, n.dead, n.cancelled`
  )
  // A closed batch has its counts, and its jobs are not read.
  const counted = sql`cross join lateral (
    select count(*) filter (where j.finished_at is null)::int as unfinished,
      count(*) filter (where j.status = 'done')::int as done,
      count(*) filter (where j.status = 'dead' and j.dead_reason <> 'cancelled')::int as dead,
      count(*) filter (where j.dead_reason = 'cancelled')::int as cancelled
    from ${jobs} j where j.batch_id = b.id and b.closed_at is null
  ) n`
  const isOver = sql`not exists (select from ${jobs} j where j.batch_id = b.id and j.finished_at is null)`

  const find = (id: BatchId) =>
    Effect.map(mapErrors(sql<BatchRow>`select ${columns} from ${table} b ${counted} where b.id = ${id}`), ([row]) =>
      Option.map(Option.fromNullable(row), toBatch)
    )

  const get = (id: BatchId) =>
    Effect.flatMap(find(id), Option.match({ onNone: () => new BatchNotFound({ id }), onSome: Effect.succeed }))

  /** Stores the jobs and counts those that were added to the batch, without those that already existed. */
  const store = (id: BatchId, given: ReadonlyArray<NewJob>, subject: SubjectDigest | undefined) =>
    Effect.gen(function* () {
      const own = given.flatMap((job) => job.id ?? [])
      const standing = yield* own.length === 0
        ? Effect.succeed([])
        : mapErrors(sql<{ id: JobId }>`select id from ${jobs} where id = any(${own}::uuid[]) and batch_id = ${id}`)
      const repeated = new Set(standing.map((job) => job.id))
      const answers = yield* enqueueIn(queue, id, given, subject)
      const stored = answers.flatMap((answer) =>
        answer.outcome === "enqueued" && !repeated.has(answer.id) ? [answer.id] : []
      )
      yield* mapErrors(sql`update ${table} set total = total + (
        select count(*) from ${jobs} where id = any(${stored}::uuid[]) and batch_id = ${id}) where id = ${id}`)
      return answers
    })

  const create: typeof Batches.Service.create = (batch) =>
    Effect.gen(function* () {
      yield* checked(batch)
      const now = yield* Clock.currentTimeMillis
      const id = batch.id ?? ids.batch(now)
      const subject = batch.subject === undefined ? yield* FiberRef.get(ownSubject) : digestOf(batch.subject)
      const stored = yield* transaction(
        Effect.gen(function* () {
          const rows = yield* mapErrors(sql`
            insert into ${table} (id, created_at, total, name, subject, follow_up)
            values (${id}, ${instant(now)}, 0, ${batch.name ?? null}, ${subject ?? null},
              ${batch.followUp === undefined ? null : JSON.stringify(batch.followUp)}::jsonb)
            on conflict do nothing returning id`)
          if (rows.length === 0) return { created: false, jobs: [] as ReadonlyArray<Enqueued> }
          const answers = yield* store(id, batch.jobs, subject)
          yield* hints.publish(batchTopic, id)
          return { created: true, jobs: answers }
        })
      )
      return { ...stored, batch: yield* Effect.orDie(get(id)) }
    })

  const add: typeof Batches.Service.add = (id, given) =>
    transaction(
      Effect.gen(function* () {
        yield* checked({ jobs: given })
        // Locked until the jobs are committed, so that the batch is not closed without them.
        const [row] = yield* mapErrors(sql<{ closed: boolean; subject: string | null }>`
          select closed_at is not null as closed, subject from ${table} where id = ${id} for update`)
        if (row === undefined) return yield* new BatchNotFound({ id })
        if (row.closed) return yield* new BatchClosed({ id })
        return yield* store(id, given, row.subject ?? undefined)
      })
    )

  /**
   * The lock comes first: the statement that closes the batch then sees all jobs that `add` has committed. A follow-up
   * that cannot be stored, because its queue is full, leaves the batch open for the next pass; the result says why.
   */
  const closeOne = (id: BatchId) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const locked = yield* mapErrors(
        sql`select from ${table} where id = ${id} and closed_at is null for update skip locked`
      )
      if (locked.length === 0) return { isClosed: false }
      const [row] = yield* mapErrors(
        sql<BatchRow>`select ${columns} from ${table} b ${counted} where b.id = ${id} and ${isOver}`
      )
      if (row === undefined) return { isClosed: false }
      const batch = toBatch(row)
      const { unfinished: _, ...counts } = batch.counts
      const followUpId: JobId | undefined =
        batch.followUp === undefined
          ? undefined
          : (yield* queue.enqueue([followUpJob(batch.followUp, batch, row.subject ?? undefined)]))[0]?.id
      yield* mapErrors(sql`update ${table} set closed_at = ${instant(now)}, counts = ${JSON.stringify(counts)}::jsonb,
        follow_up_id = ${followUpId ?? null} where id = ${id}`)
      const isUnread = batch.followUp === undefined && row.follow_up !== null
      const problem = `batch ${id} was closed without its follow-up, which is not valid`
      return isUnread ? { isClosed: true, problem } : { isClosed: true }
    }).pipe(
      transaction,
      Effect.catchTag("QueueFull", "InvalidJob", "JobIdTaken", ({ message }) =>
        Effect.succeed({ isClosed: false, problem: `batch ${id} stays open: ${message}` })
      )
    )

  const close: typeof Batches.Service.close = Effect.gen(function* () {
    const results: Array<{ readonly isClosed: boolean; readonly problem?: string }> = []
    let after: BatchId | undefined
    // Continues after the last id, so that batches that stay open do not keep others from being closed.
    for (;;) {
      const rest = after === undefined ? sql`true` : sql`b.id > ${after}`
      const over = yield* mapErrors(sql<{ id: BatchId }>`
        select b.id from ${table} b where b.closed_at is null and ${rest} and ${isOver} order by b.id limit ${closeBatch}`)
      results.push(...(yield* Effect.forEach(over, ({ id }) => closeOne(id))))
      if (over.length < closeBatch) break
      after = over.at(-1)?.id
    }
    const [problem, ...more] = results.flatMap((result) => result.problem ?? [])
    if (problem !== undefined)
      yield* Effect.logWarning(more.length === 0 ? problem : `${problem} (and ${more.length} more)`)
    const [open] = yield* mapErrors(sql<{ created_at: number | null }>`
      select ${sql.literal(millis("max(created_at)"))} as created_at from ${table} where closed_at is null`)
    return { closed: results.filter(({ isClosed }) => isClosed).length, newestOpen: open?.created_at ?? undefined }
  })

  return Batches.of({
    create,
    add,
    get,
    list: ({ cursor, limit }) =>
      Effect.gen(function* () {
        const after = Option.match(yield* cursorOf(cursor), {
          onNone: () => sql`true`,
          onSome: (id) => sql`b.id < ${id}`
        })
        const rows = yield* mapErrors(sql<BatchRow>`
          select ${columns} from (select * from ${table} b where ${after} order by b.id desc limit ${limit + 1}) b
          ${counted} order by b.id desc`)
        const batches = rows.slice(0, limit).map(toBatch)
        return { batches, next: rows.length > limit ? batches.at(-1)?.id : undefined }
      }),
    close,
    erase: (subject, act) =>
      act === "count"
        ? Effect.map(
            mapErrors(sql<{ count: number }>`select count(*)::int as count from ${table} where subject = ${subject}`),
            ([row]) => row?.count ?? 0
          )
        : transaction(
            Effect.gen(function* () {
              const rows = yield* mapErrors(sql<{ id: string }>`
                update ${table} set name = null, follow_up = null, subject = null where id in (
                  select id from ${table} where subject = ${subject} order by id limit ${eraseBatch} for update)
                returning id`)
              // The stored response to a request with an Idempotency-Key has the name.
              if (rows.length > 0)
                yield* mapErrors(sql`update ${sql(`${schema}.idempotency`)}
                  set answer = jsonb_set(answer, '{batch,name}', 'null')
                  where answer->'batch'->>'id' = any(${rows.map(({ id }) => id)}::text[])`)
              return rows.length
            })
          ),
    purge: (olderThan) =>
      Effect.gen(function* () {
        const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(olderThan)
        let purged = 0
        for (;;) {
          const rows = yield* mapErrors(sql`
            delete from ${table} where id in (
              select id from ${table} where closed_at < ${instant(before)} order by closed_at limit ${purgeBatch}
            ) returning id`)
          purged += rows.length
          if (rows.length < purgeBatch) return purged
        }
      })
  })
})

export const layer: Layer.Layer<Batches, never, Database | Queue | Hints> = Layer.effect(Batches, make)
