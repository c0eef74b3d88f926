import * as SqlClient from "@effect/sql/SqlClient"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Deferred, Duration, Effect, Layer, Logger, LogLevel, Schedule, Schema } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import * as DatabaseFailure from "../../src/worker/slots/DatabaseFailure.js"
import * as ShapingProxy from "../support/ShapingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

const Once = Job.make("once", { payload: Schema.Struct({}), attempts: 1, timeout: "30 seconds" })
const Hold = Job.make("hold", { payload: Schema.Struct({}), attempts: 1, timeout: "30 seconds" })

const house = (connectTimeout: string, heartbeat = "200ms") =>
  Layer.provideMerge(
    TestDatabase.layer,
    Layer.setConfigProvider(
      ConfigProvider.fromMap(
        new Map([
          ["DATABASE_HANDLER_POOL", "4"],
          ["DATABASE_CONNECT_TIMEOUT", connectTimeout],
          ["QUEUE_POLL", "100ms"],
          ["QUEUE_HEARTBEAT", heartbeat]
        ])
      )
    )
  )

const counted = Effect.gen(function* () {
  const { sql } = yield* Database
  return yield* sql`select sum(completed)::int as completed, sum(retried)::int as retried
    from nightshift.job_bucket where minutes = 1`
})

/** Runs these handlers until no job is left, and returns how the jobs ended. */
const outcomes = <A, E, R>(
  handlers: ReadonlyArray<Handler.Handler<Nightshift.Services>>,
  meanwhile: Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const databaseUrl = yield* DatabaseUrl
    return yield* Effect.gen(function* () {
      const { sql } = yield* Database
      yield* meanwhile
      yield* Effect.repeat(sql`select from nightshift.job where status in ('pending', 'running') limit 1`, {
        until: (rows) => rows.length === 0,
        schedule: Schedule.spaced("50 millis")
      })
      return yield* sql`select kind, status, attempt, count(*)::int from nightshift.job group by 1, 2, 3 order by 1`
    }).pipe(
      Effect.provide(Nightshift.layer({ handlers, queues: ["default"], databaseUrl })),
      Effect.timeout("40 seconds"),
      Logger.withMinimumLogLevel(LogLevel.None)
    )
  })

describe("a transactional handler with one attempt", () => {
  it.scopedLive("is not charged an attempt for a connection that is cut while it runs", () =>
    Effect.gen(function* () {
      const other = yield* TestDatabase.connection
      let runs = 0
      const handler = Handler.makeInTransaction(Once, () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const [row] = yield* sql<{ pid: number }>`select pg_backend_pid() as pid`
          if (++runs === 1)
            yield* Effect.promise(() => other.query("select pg_terminate_backend($1, 5000)", [row?.pid]))
          yield* sql`select 1`
        })
      )
      expect(yield* outcomes([handler], Once.enqueue({}))).toEqual([
        { kind: "once", status: "done", attempt: 1, count: 1 }
      ])
      expect(runs).toBe(2)
    }).pipe(Effect.provide(house("10s")))
  )

  it.scopedLive("is counted as completed when its transaction was committed and only the reply was lost", () =>
    Effect.gen(function* () {
      const proxy = yield* ShapingProxy.make(yield* DatabaseUrl)
      let runs = 0
      const handler = Handler.makeInTransaction(Once, () => {
        runs += 1
        return proxy.shape({ losesReplyTo: "COMMIT" })
      })
      const meanwhile = Effect.gen(function* () {
        yield* Once.enqueue({})
        const other = yield* TestDatabase.connection
        yield* Effect.repeat(
          Effect.promise(() => other.query("select from nightshift.job where status = 'done'")),
          { until: ({ rowCount }) => rowCount === 1, schedule: Schedule.spaced("10 millis") }
        )
        yield* proxy.shape({})
      })
      const through = DatabaseUrl.layerOf(proxy.url)
      expect(yield* Effect.provide(outcomes([handler], meanwhile), through)).toEqual([
        { kind: "once", status: "done", attempt: 1, count: 1 }
      ])
      expect(runs).toBe(1)
      expect(yield* counted).toEqual([{ completed: 1, retried: 0 }])
    }).pipe(Effect.provide(house("10s")))
  )

  it.scopedLive("is counted as completed when a heartbeat finds the job done before the reply to COMMIT arrives", () =>
    Effect.gen(function* () {
      const proxy = yield* ShapingProxy.make(yield* DatabaseUrl)
      const handler = Handler.makeInTransaction(Once, () =>
        proxy.shape({ delaysReplyTo: { text: "COMMIT", millis: 1_000 } })
      )
      expect(yield* Effect.provide(outcomes([handler], Once.enqueue({})), DatabaseUrl.layerOf(proxy.url))).toEqual([
        { kind: "once", status: "done", attempt: 1, count: 1 }
      ])
      expect(yield* counted).toEqual([{ completed: 1, retried: 0 }])
    }).pipe(Effect.provide(house("10s")))
  )

  it.scopedLive("does not commit after another process has rescued its job, even if no heartbeat has stopped it", () =>
    Effect.gen(function* () {
      const [writes, rescues] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      yield* Effect.flatMap(Database, ({ sql }) => sql`create table public.effect (run int)`)
      let runs = 0
      const handler = Handler.makeInTransaction(Once, () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* sql`insert into public.effect values (${++runs})`
          yield* Deferred.succeed(writes, undefined)
          yield* Deferred.await(rescues)
        })
      )
      const meanwhile = Effect.gen(function* () {
        yield* Once.enqueue({})
        yield* Deferred.await(writes)
        const queue = yield* Queue
        expect(yield* queue.recoverStuck(Duration.zero)).toMatchObject({ rescued: 1 })
        yield* Deferred.succeed(rescues, undefined)
      })
      expect(yield* outcomes([handler], meanwhile)).toEqual([{ kind: "once", status: "done", attempt: 1, count: 1 }])
      expect(yield* Effect.flatMap(Database, ({ sql }) => sql`select run from public.effect`)).toEqual([{ run: 2 }])
    }).pipe(Effect.provide(house("10s", "20s")))
  )

  it.scopedLive("waits for a connection instead of failing without one", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      let held = 0
      const hold = Handler.make(Hold, () =>
        Effect.flatMap(SqlClient.SqlClient, (sql) =>
          sql.withTransaction(
            Effect.suspend(() => {
              held += 1
              return Deferred.await(gate)
            })
          )
        )
      )
      const once = Handler.makeInTransaction(Once, () => Effect.void)
      const meanwhile = Effect.gen(function* () {
        yield* Effect.replicateEffect(Hold.enqueue({}), 4)
        yield* Effect.repeat(
          Effect.sync(() => held),
          { until: (count) => count === 4, schedule: Schedule.spaced("10 millis") }
        )
        yield* Once.enqueue({})
        const { handlerPoolUse } = yield* Database
        for (const waiting of [1, 0]) {
          yield* Effect.repeat(handlerPoolUse, {
            until: (use) => use.waiting === waiting,
            schedule: Schedule.spaced("10 millis")
          })
        }
        yield* Deferred.succeed(gate, undefined)
      })
      expect(yield* outcomes([hold, once], meanwhile)).toEqual([
        { kind: "hold", status: "done", attempt: 1, count: 4 },
        { kind: "once", status: "done", attempt: 1, count: 1 }
      ])
    }).pipe(Effect.provide(house("2s")))
  )

  it.scopedLive("works when the database's default isolation is serializable, and when it requests that itself", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* sql`create table tally (id int primary key, n int not null)`
      yield* sql`insert into tally values (1, 0), (2, 0)`
      const [row] = yield* sql<{ name: string }>`select current_database() as name`
      yield* sql.unsafe(`alter database ${row?.name} set default_transaction_isolation to serializable`)
      const plain = Handler.makeInTransaction(Once, () =>
        Effect.flatMap(SqlClient.SqlClient, (mine) => mine`update tally set n = n + 1 where id = 1`)
      )
      const strict = Handler.makeInTransaction(Hold, () =>
        Effect.gen(function* () {
          const mine = yield* SqlClient.SqlClient
          yield* mine`set transaction isolation level serializable`
          yield* mine`update tally set n = n + 1 where id = 2`
        })
      )
      const meanwhile = Effect.all([
        Effect.replicateEffect(Once.enqueue({}), 30),
        Effect.replicateEffect(Hold.enqueue({}), 10)
      ])
      expect(yield* outcomes([plain, strict], meanwhile)).toEqual([
        { kind: "hold", status: "done", attempt: 1, count: 10 },
        { kind: "once", status: "done", attempt: 1, count: 30 }
      ])
      expect(yield* sql`select n from tally order by id`).toEqual([{ n: 30 }, { n: 10 }])
    }).pipe(Effect.provide(house("10s")))
  )
})

describe("a job that lost its connection", () => {
  const job = { id: "0198a000-0000-7000-8000-000000000001" } as ClaimedJob
  const error = new DatabaseUnavailable({ detail: "gone", nothingWritten: true })
  const at = { now: 0, chance: 1 }

  it("is retried with growing delays, and counts as failed after repeated losses", () => {
    const ends = Array.from({ length: 7 }, () => DatabaseFailure.returnToQueue(job, error, true, at))
    expect(ends.map((end) => end?._tag === "Again" && end.runAt)).toEqual([
      1_000,
      2_000,
      4_000,
      8_000,
      16_000,
      false,
      1_000
    ])
  })

  it("is not blamed while no handler has started", () => {
    const ends = Array.from({ length: 50 }, () => DatabaseFailure.returnToQueue({ ...job }, error, false, at))
    expect(ends.every((end) => end?._tag === "Again" && !end.counted)).toBe(true)
  })
})
