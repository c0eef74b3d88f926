import { expect } from "@effect/vitest"
import { Duration, Effect, Exit } from "effect"
import type { BatchId } from "../../src/core/Ids.js"
import type { FollowUp } from "../../src/core/StoredJob.js"
import type { End } from "../../src/queue/AttemptEnd.js"
import { ends, type Law, type Line } from "./Line.js"

const reportQueue = (line: Line) => `${line.name}-report`

const followUp = (line: Line): FollowUp => ({
  kind: "report",
  version: 1,
  queue: reportQueue(line),
  payload: { month: "May" },
  attempts: 3
})

const reports = (line: Line) => line.all(reportQueue(line))

/** A batch of this many jobs. */
const batchOf = (line: Line, count: number) =>
  line.batches.create({ jobs: Array.from({ length: count }, () => line.job()), followUp: followUp(line), name: "May" })

const finishAll = (line: Line, end: End = ends.done) =>
  Effect.flatMap(line.claim(100), (runs) => Effect.forEach(runs, (run) => line.end(run, end)))

export const batchLaws = (law: Law): void => {
  law("stores the jobs and shows their progress", (line) =>
    Effect.gen(function* () {
      const { batch, created, jobs } = yield* batchOf(line, 3)
      expect(created).toBe(true)
      expect(jobs.map(({ outcome }) => outcome)).toEqual(["enqueued", "enqueued", "enqueued"])
      expect(batch).toMatchObject({ name: "May", total: 3, createdAt: yield* line.now, closedAt: undefined })
      expect(batch.counts).toEqual({ unfinished: 3, done: 0, dead: 0, cancelled: 0, deleted: 0 })
      const [run] = yield* line.claim(1)
      if (run !== undefined) yield* line.end(run, ends.done)
      expect((yield* line.batches.get(batch.id)).counts).toMatchObject({ unfinished: 2, done: 1 })
      expect(yield* line.search.list({ batch: batch.id }, { limit: 10 })).toMatchObject({
        jobs: jobs.map(() => ({ batch: batch.id }))
      })
    })
  )

  law("enqueues the follow-up once, when the last job has ended, with the counts", (line) =>
    Effect.gen(function* () {
      const { batch } = yield* batchOf(line, 4)
      const [done, dead, cancelled, deleted] = yield* line.all()
      if (!done || !dead || !cancelled || !deleted) return yield* Effect.dieMessage("four were stored")
      yield* line.jobAdmin.cancel(cancelled.id)
      yield* line.jobAdmin.remove(deleted.id)
      const [first, second] = yield* line.claim(2)
      if (first === undefined || second === undefined) return yield* Effect.dieMessage("two are left")
      yield* line.end(first, ends.done)
      yield* line.batches.close
      expect(yield* reports(line)).toEqual([])
      yield* line.end(second, ends.dead)
      yield* line.batches.close
      yield* line.batches.close
      const counts = { done: 1, dead: 1, cancelled: 1, deleted: 1 }
      const [report, ...others] = yield* reports(line)
      expect(others).toEqual([])
      expect(report).toMatchObject({
        kind: "report",
        payload: { month: "May" },
        state: "pending",
        meta: { batch: { id: batch.id, total: 4, ...counts } }
      })
      const closed = yield* line.batches.get(batch.id)
      expect(closed).toMatchObject({ counts: { unfinished: 0, ...counts }, followUpId: report?.id })
      expect(closed.closedAt).toBe(yield* line.now)
    })
  )

  law("waits for retries and rescued jobs", (line) =>
    Effect.gen(function* () {
      yield* batchOf(line, 1)
      yield* line.end(yield* line.claimOne, ends.again((yield* line.now) + 1_000))
      yield* line.batches.close
      yield* line.crash(yield* line.claimOne)
      yield* line.batches.close
      expect(yield* reports(line)).toEqual([])
      yield* finishAll(line)
      yield* line.batches.close
      expect(yield* reports(line)).toHaveLength(1)
    })
  )

  law("waits for a job that was requeued while it was open", (line) =>
    Effect.gen(function* () {
      const { batch } = yield* batchOf(line, 1)
      const dead = yield* line.end(yield* line.claimOne, ends.dead)
      yield* line.jobAdmin.requeue(dead.id)
      expect((yield* line.search.get(dead.id)).batch).toBe(batch.id)
      yield* line.batches.close
      expect((yield* line.batches.get(batch.id)).closedAt).toBeUndefined()
      expect(yield* reports(line)).toEqual([])
      yield* finishAll(line)
      yield* line.batches.close
      const counts = { unfinished: 0, done: 1, dead: 0, cancelled: 0, deleted: 0 }
      expect(yield* line.batches.get(batch.id)).toMatchObject({ counts })
      expect(yield* reports(line)).toHaveLength(1)
    })
  )

  law("takes more jobs while it is open and none once it is closed", (line) =>
    Effect.gen(function* () {
      const { batch } = yield* batchOf(line, 1)
      yield* line.batches.add(batch.id, [line.job(), line.job()])
      expect(yield* line.batches.get(batch.id)).toMatchObject({ total: 3, counts: { unfinished: 3 } })
      yield* finishAll(line)
      yield* line.batches.close
      expect(yield* Effect.flip(line.batches.add(batch.id, [line.job()]))).toMatchObject({ _tag: "BatchClosed" })
      expect(yield* line.all()).toHaveLength(3)
      const unknown = (yield* line.newId) as string as BatchId
      expect(yield* Effect.flip(line.batches.add(unknown, [line.job()]))).toMatchObject({ _tag: "BatchNotFound" })
      expect(yield* Effect.flip(line.batches.get(unknown))).toMatchObject({ _tag: "BatchNotFound" })
    })
  )

  law("counts a job that is added again, or twice, once", (line) =>
    Effect.gen(function* () {
      const { batch } = yield* batchOf(line, 1)
      const again = [line.job({ id: yield* line.newId })]
      for (let time = 1; time <= 2; time += 1) {
        yield* line.batches.add(batch.id, again)
        expect(yield* line.batches.get(batch.id)).toMatchObject({ total: 2, counts: { unfinished: 2, deleted: 0 } })
      }
      const twice = line.job({ id: yield* line.newId })
      const jobs = [twice, ...Array.from({ length: 999 }, () => line.job()), twice]
      const { counts, total } = (yield* line.batches.create({ jobs })).batch
      expect({ total, counts }).toMatchObject({ total: 1000, counts: { unfinished: 1000, deleted: 0 } })
    })
  )

  law("stays closed when one of its jobs is requeued", (line) =>
    Effect.gen(function* () {
      const { batch } = yield* batchOf(line, 1)
      const [ended] = yield* finishAll(line, ends.dead)
      yield* line.batches.close
      if (ended !== undefined) yield* line.jobAdmin.requeue(ended.id)
      yield* finishAll(line)
      yield* line.batches.close
      expect(yield* reports(line)).toHaveLength(1)
      expect((yield* line.batches.get(batch.id)).counts).toMatchObject({ done: 0, dead: 1 })
    })
  )

  law("without jobs closes at once", (line) =>
    Effect.gen(function* () {
      yield* line.batches.create({ jobs: [], followUp: followUp(line) })
      yield* line.batches.close
      expect(yield* reports(line)).toMatchObject([{ meta: { batch: { total: 0, done: 0 } } }])
    })
  )

  law("of thousands of jobs is stored in one call and closed once", (line) =>
    Effect.gen(function* () {
      const { batch } = yield* batchOf(line, 2_300)
      expect(batch).toMatchObject({ total: 2_300, counts: { unfinished: 2_300 } })
      for (;;) {
        const runs = yield* line.claim(1_000)
        if (runs.length === 0) break
        yield* line.queue.finalize(runs.map(({ id, lease }) => ({ id, lease, end: ends.done })))
      }
      yield* Effect.all([line.batches.close, line.batches.close], { concurrency: 2 })
      expect(yield* reports(line)).toMatchObject([{ meta: { batch: { done: 2_300 } } }])
    })
  )

  law("is stored whole or not at all, and names the rejected job", (line) =>
    Effect.gen(function* () {
      const jobs = [...Array.from({ length: 1_200 }, () => line.job()), line.job({ priority: 1e9 })]
      const error = yield* Effect.flip(line.batches.create({ jobs, followUp: followUp(line) }))
      expect(error).toMatchObject({ _tag: "InvalidJob", index: 1_200, field: "priority" })
      expect(yield* line.all()).toEqual([])
      for (const [field, value] of Object.entries({ queue: "no spaces allowed", priority: 100_000 })) {
        const bad = { ...followUp(line), [field]: value }
        const refused = yield* Effect.flip(line.batches.create({ jobs: [line.job()], followUp: bad }))
        expect(refused).toMatchObject({ _tag: "InvalidBatch", field: `followUp.${field}` })
      }
      expect(yield* line.all()).toEqual([])
    })
  )

  law("leaves out jobs whose dedupe key another job holds", (line) =>
    Effect.gen(function* () {
      const dedupe = { key: `${line.name}-once`, scope: "active" } as const
      yield* line.put({ dedupe })
      const { batch, jobs } = yield* line.batches.create({ jobs: [line.job({ dedupe }), line.job()] })
      expect(jobs.map(({ outcome }) => outcome)).toEqual(["deduplicated", "enqueued"])
      expect(batch).toMatchObject({ total: 1, counts: { unfinished: 1 } })
    })
  )

  law("is created once per id", (line) =>
    Effect.gen(function* () {
      const id = (yield* line.newId) as string as BatchId
      const request = { id, jobs: [line.job()], followUp: followUp(line) }
      yield* line.batches.create(request)
      const again = yield* line.batches.create(request)
      expect(again).toMatchObject({ created: false, jobs: [], batch: { id, total: 1 } })
      expect(yield* line.all()).toHaveLength(1)
    })
  )

  law("stays open while the queue of its follow-up is full", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([reportQueue(line)])
      yield* line.queues.change(reportQueue(line), { depthCap: 1 })
      yield* line.put({ queue: reportQueue(line) })
      const { batch } = yield* batchOf(line, 1)
      yield* finishAll(line)
      yield* line.batches.close
      expect((yield* line.batches.get(batch.id)).closedAt).toBeUndefined()
      yield* line.queues.change(reportQueue(line), { depthCap: 10 })
      yield* line.batches.close
      expect((yield* line.batches.get(batch.id)).closedAt).toBeDefined()
      expect(yield* reports(line)).toHaveLength(2)
    })
  )

  law("is closed even if many older ones have to stay open", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([reportQueue(line)])
      yield* line.queues.change(reportQueue(line), { depthCap: 1 })
      yield* line.put({ queue: reportQueue(line) })
      yield* Effect.replicateEffect(batchOf(line, 0), 101, { discard: true })
      const { batch } = yield* line.batches.create({ jobs: [] })
      yield* line.batches.close
      expect((yield* line.batches.get(batch.id)).closedAt).toBeDefined()
    })
  )

  law("is listed newest first, page by page, and deleted after its retention", (line) =>
    Effect.gen(function* () {
      const made: Array<BatchId> = []
      for (let count = 0; count < 3; count += 1) {
        yield* line.advance("1 second")
        made.push((yield* batchOf(line, 1)).batch.id)
      }
      const first = yield* line.batches.list({ limit: 2 })
      expect(first.batches.map(({ id }) => id)).toEqual([made[2], made[1]])
      const second = yield* line.batches.list({ limit: 2, cursor: first.next })
      expect(second.batches[0]?.id).toBe(made[0])
      expect(Exit.isFailure(yield* Effect.exit(line.batches.list({ limit: 2, cursor: "x" })))).toBe(true)
      yield* finishAll(line)
      yield* line.batches.close
      yield* line.advance("1 hour")
      yield* line.batches.purge(Duration.hours(2))
      expect((yield* line.batches.get(made[0] as BatchId)).total).toBe(1)
      yield* line.batches.purge(Duration.minutes(30))
      expect(yield* Effect.flip(line.batches.get(made[0] as BatchId))).toMatchObject({ _tag: "BatchNotFound" })
    })
  )
}
