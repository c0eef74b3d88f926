import { Clock, Duration, Effect, FiberRef, Layer, Option } from "effect"
import type { BatchId, JobId } from "../../core/Ids.js"
import { idleUntil } from "../../core/Loop.js"
import { ownSubject } from "../../core/OwnSubject.js"
import * as Rollback from "../../core/Rollback.js"
import type { SubjectDigest } from "../../core/Subject.js"
import { Hints } from "../../database/Hints.js"
import { digestOf } from "../../database/SubjectText.js"
import { JobTable } from "../JobTableMemory.js"
import type { NewJob } from "../NewJob.js"
import { Queue } from "../Queue.js"
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

/** A batch with its subject. */
interface BatchRow extends Batch {
  readonly subject: SubjectDigest | undefined
}

const make = Effect.gen(function* () {
  const table = yield* JobTable
  const queue = yield* Queue
  const hints = yield* Hints
  const batches = new Map<BatchId, BatchRow>()
  const oldestClosed = () =>
    Math.min(...[...batches.values()].map(({ closedAt = Number.POSITIVE_INFINITY }) => closedAt))

  /** Writes a batch. An enclosing transaction that fails restores it. */
  const write = (id: BatchId, batch: BatchRow | undefined) => {
    const before = batches.get(id)
    if (batch === undefined) batches.delete(id)
    else batches.set(id, batch)
    return Rollback.remember(() => {
      if (before === undefined) batches.delete(id)
      else batches.set(id, before)
    })
  }

  const countsOf = ({ id, total }: Batch): BatchCounts => {
    const counts = { unfinished: 0, done: 0, dead: 0, cancelled: 0 }
    for (const row of table.rows()) {
      if (row.batch !== id) continue
      if (row.status === "done") counts.done += 1
      else if (row.status !== "dead") counts.unfinished += 1
      else if (row.reason === "cancelled") counts.cancelled += 1
      else counts.dead += 1
    }
    const { cancelled, dead, done, unfinished } = counts
    return { ...counts, deleted: Math.max(0, total - unfinished - done - dead - cancelled) }
  }

  const shown = ({ subject: _, ...batch }: BatchRow): Batch =>
    batch.closedAt === undefined ? { ...batch, counts: countsOf(batch) } : batch

  const find = (id: BatchId) => {
    const batch = batches.get(id)
    return batch === undefined ? Effect.fail(new BatchNotFound({ id })) : Effect.succeed(batch)
  }

  const store = (batch: BatchRow, given: ReadonlyArray<NewJob>) =>
    Effect.gen(function* () {
      const isIn = (id: JobId | undefined) => id !== undefined && table.get(id)?.batch === batch.id
      const repeated = new Set(given.flatMap(({ id }) => (isIn(id) ? (id ?? []) : [])))
      const answers = yield* enqueueIn(queue, batch.id, given, batch.subject)
      const stored = new Set(answers.flatMap(({ id, outcome }) => (outcome === "enqueued" && isIn(id) ? [id] : [])))
      yield* write(batch.id, { ...batch, total: batch.total + [...stored].filter((id) => !repeated.has(id)).length })
      return answers
    })

  const closeOne = (batch: BatchRow, now: number) =>
    Effect.gen(function* () {
      const counts = countsOf(batch)
      if (counts.unfinished > 0) return 0
      const followUpId =
        batch.followUp === undefined
          ? undefined
          : (yield* queue.enqueue([followUpJob(batch.followUp, { ...batch, counts }, batch.subject)]))[0]?.id
      yield* write(batch.id, { ...batch, counts, closedAt: now, followUpId })
      return 1
    }).pipe(Effect.catchTags({ QueueFull: () => Effect.succeed(0) }), Effect.orDie)

  return Batches.of({
    create: (given) =>
      Effect.gen(function* () {
        yield* checked(given)
        const now = yield* Clock.currentTimeMillis
        const id = given.id ?? table.ids.batch(now)
        const existing = batches.get(id)
        if (existing !== undefined) return { batch: shown(existing), created: false, jobs: [] }
        const subject = given.subject === undefined ? yield* FiberRef.get(ownSubject) : digestOf(given.subject)
        const batch: BatchRow = {
          id,
          subject,
          name: given.name,
          createdAt: now,
          closedAt: undefined,
          total: 0,
          counts: { unfinished: 0, done: 0, dead: 0, cancelled: 0, deleted: 0 },
          followUp: given.followUp,
          followUpId: undefined
        }
        const jobs = yield* Rollback.transaction(
          Effect.zipRight(
            write(id, batch),
            Effect.suspend(() => store(batch, given.jobs))
          )
        )
        yield* hints.publish(batchTopic, id)
        return { batch: shown(yield* Effect.orDie(find(id))), created: true, jobs }
      }),
    add: (id, given) =>
      Effect.gen(function* () {
        yield* checked({ jobs: given })
        const batch = yield* find(id)
        if (batch.closedAt !== undefined) return yield* new BatchClosed({ id })
        return yield* Rollback.transaction(store(batch, given))
      }),
    get: (id) => Effect.map(find(id), shown),
    list: ({ cursor, limit }) =>
      Effect.gen(function* () {
        const after = Option.getOrUndefined(yield* cursorOf(cursor))
        const found = [...batches.values()]
          .filter(({ id }) => after === undefined || id < after)
          .sort((a, b) => (a.id < b.id ? 1 : -1))
        const page = found.slice(0, limit).map(shown)
        return { batches: page, next: found.length > limit ? page.at(-1)?.id : undefined }
      }),
    erase: (subject, act) =>
      Effect.gen(function* () {
        const found = [...batches.values()].filter((batch) => batch.subject === subject)
        if (act === "erase")
          for (const batch of found)
            yield* write(batch.id, { ...batch, name: undefined, followUp: undefined, subject: undefined })
        return found.length
      }),
    close: Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      let closed = 0
      for (const batch of [...batches.values()]) if (batch.closedAt === undefined) closed += yield* closeOne(batch, now)
      const open = [...batches.values()].filter(({ closedAt }) => closedAt === undefined)
      // A batch that has ended and is open waits for room in the queue of its follow-up.
      const isFull = open.some((batch) => countsOf(batch).unfinished === 0)
      const seen = table.changes()
      const isIdle = () => open.length === 0 || (!isFull && table.changes() === seen)
      yield* idleUntil(() => (isIdle() ? Number.POSITIVE_INFINITY : 0))
      return { closed, newestOpen: open.length === 0 ? undefined : Math.max(...open.map(({ createdAt }) => createdAt)) }
    }),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const before = now - Duration.toMillis(olderThan)
        const old = [...batches.values()].filter(({ closedAt }) => closedAt !== undefined && closedAt < before)
        for (const { id } of old) batches.delete(id)
        return old.length
      }).pipe(Effect.zipLeft(idleUntil(() => oldestClosed() + Duration.toMillis(olderThan))))
  })
})

export const layer: Layer.Layer<Batches, never, JobTable | Queue | Hints> = Layer.effect(Batches, make)
