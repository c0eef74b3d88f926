import { expect, it, layer } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Logger, Schedule } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { type AttemptLog, inStatements, JobLogs, perStatement } from "../../src/queue/logs/JobLogs.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

const bounds = { lines: 200, bytes: 32 * 1024 }

const logOf = ({ attempt, id, lease }: ClaimedJob, text = "{}"): AttemptLog => ({
  id,
  lease,
  attempt,
  count: 1,
  lines: [text],
  bounds
})

const stateOf = (id: string) =>
  Effect.flatMap(Database, ({ sql }) =>
    Effect.map(sql<{ status: string }>`select status from nightshift.job where id = ${id}`, ([row]) => row?.status)
  )

/** Ends a job that has logged while the table of logs is missing. Returns its state. */
const ended = (queue: string, finalize: (job: ClaimedJob) => Effect.Effect<unknown, unknown, Queue | Database>) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    const jobs = yield* Queue
    yield* jobs.enqueue([{ queue, kind: "k", version: 1, payload: {}, attempts: 1 }])
    const [job] = yield* jobs.claim({ queue, pod: (yield* makeGenerator).pod(0), limit: 1 })
    if (job === undefined) return yield* Effect.dieMessage("no job is due")
    yield* sql`alter table nightshift.job_log rename to job_log_away`
    yield* Effect.ensuring(finalize(job), Effect.orDie(sql`alter table nightshift.job_log_away rename to job_log`))
    return yield* stateOf(job.id)
  }).pipe(Effect.provide(Logger.replace(Logger.defaultLogger, Logger.none)))

layer(house, { excludeTestServices: true })("a log that cannot be stored", (it) => {
  const end = (job: ClaimedJob) => ({
    id: job.id,
    lease: job.lease,
    log: logOf(job),
    end: End.Done({ result: undefined })
  })

  it.effect("does not keep its job from ending", () =>
    Effect.gen(function* () {
      const state = yield* ended("alone", (job) => Effect.flatMap(Queue, ({ finalize }) => finalize([end(job)])))
      expect(state).toBe("done")
    })
  )

  it.effect("does not abort the transaction that ends its job", () =>
    Effect.gen(function* () {
      const state = yield* ended("within", (job) =>
        Effect.gen(function* () {
          const { sql, transaction } = yield* Database
          const { finalize } = yield* Queue
          yield* transaction(Effect.zipRight(finalize([end(job)]), sql`select 1`))
        })
      )
      expect(state).toBe("done")
    })
  )
})

layer(house, { excludeTestServices: true })("a log that is written while its job is purged", (it) => {
  it.scoped("is deleted with its job", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const queue = yield* Queue
      const logs = yield* JobLogs
      yield* queue.enqueue([{ queue: "purged", kind: "k", version: 1, payload: {}, attempts: 1 }])
      const [job] = yield* queue.claim({ queue: "purged", pod: (yield* makeGenerator).pod(0), limit: 1 })
      if (job === undefined) return yield* Effect.dieMessage("no job is due")
      // The write has read the job and waits for another one of the same row.
      const other = yield* TestDatabase.connection
      const run = (text: string, values: ReadonlyArray<unknown> = []) =>
        Effect.promise(async () => (await other.query(text, [...values])).rows)
      yield* run("begin")
      const row = [job.id, job.lease]
      yield* run(
        "insert into nightshift.job_log (job_id, lease, attempt, count, total, lines) values ($1, $2, 1, 1, 1, '')",
        row
      )
      const written = yield* Effect.fork(logs.write([logOf(job)]))
      const waiting = run("select from pg_locks where not granted and locktype = 'transactionid'")
      yield* Effect.repeat(waiting, { until: (rows) => rows.length > 0, schedule: Schedule.spaced("10 millis") })
      yield* queue.finalize([{ id: job.id, lease: job.lease, end: End.Done({ result: undefined }) }])
      yield* sql`update nightshift.job set finished_at = finished_at - interval '1 second' where id = ${job.id}`
      yield* queue.purge(Duration.zero)
      yield* run("rollback")
      yield* Fiber.join(written)
      yield* queue.purge(Duration.zero)
      expect(yield* sql`select from nightshift.job where id = ${job.id}`).toEqual([])
      expect(yield* sql`select from nightshift.job_log where job_id = ${job.id}`).toEqual([])
    })
  )
})

layer(house, { excludeTestServices: true })("the log of a job that another session has locked", (it) => {
  it.scoped("does not keep those of other jobs from being stored while they run", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const logs = yield* JobLogs
      const job = { queue: "locked", kind: "k", version: 1, payload: {}, attempts: 1 }
      yield* queue.enqueue([job, job, job])
      const jobs = yield* queue.claim({ queue: "locked", pod: (yield* makeGenerator).pod(0), limit: 3 })
      const session = yield* TestDatabase.connection
      const run = (text: string, values: ReadonlyArray<unknown> = []) =>
        Effect.promise(() => session.query(text, [...values]))
      yield* run("begin")
      const { rowCount } = yield* run("select from nightshift.job where id = $1 for update", [jobs[1]?.id])
      expect(rowCount).toBe(1)
      const stored = Effect.forEach(jobs, ({ id }) => Effect.map(logs.read(id), ({ length }) => length))
      const write = logs.write(jobs.map((each) => logOf(each)))
      expect(yield* Effect.flip(write)).toMatchObject({ sqlState: "55P03" })
      expect(yield* stored).toEqual([1, 0, 1])
      yield* run("rollback")
      yield* write
      expect(yield* stored).toEqual([1, 1, 1])
    })
  )
})

it("logs of many ends are stored in statements of limited size", () => {
  const job = { id: "a", lease: "b", attempt: 1 } as unknown as ClaimedJob
  const logs = Array.from({ length: 100 }, () => logOf(job, "x".repeat(bounds.bytes)))
  const parts = inStatements(logs)
  expect(parts.flat()).toEqual(logs)
  expect(parts.map(({ length }) => length)).toEqual([32, 32, 32, 4])
  expect(inStatements(Array.from({ length: 501 }, () => logOf(job))).map(({ length }) => length)).toEqual([500, 1])
  expect(perStatement.bytes).toBe(32 * bounds.bytes)
})
