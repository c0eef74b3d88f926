import * as SqlClient from "@effect/sql/SqlClient"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Deferred, Effect, Layer, Logger, LogLevel, Schedule, Schema } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as RateLimit from "../../src/rate-limits/RateLimit.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const Hold = Job.make("hold", { payload: Schema.Struct({}), timeout: "1 minute" })
const Quick = Job.make("quick", { payload: Schema.Struct({}), timeout: "1 minute" })

const settings = Layer.setConfigProvider(
  ConfigProvider.fromMap(
    new Map([
      ["DATABASE_CONNECT_TIMEOUT", "30s"],
      ["QUEUE_HEARTBEAT", "200ms"]
    ])
  )
)

type Hold = (wait: Effect.Effect<void>) => Effect.Effect<void, unknown, Nightshift.Services>

/** Handlers that each report their start and hold a transaction until released. By default, three have a connection at a time. */
const holding = (hold: Hold, { jobs = 3, make = Handler.make as typeof Handler.makeInTransaction } = {}) =>
  Effect.gen(function* () {
    const gate = yield* Deferred.make<void>()
    const url = yield* DatabaseUrl
    let held = 0
    const wait = Effect.suspend(() => {
      held += 1
      return Deferred.await(gate)
    })
    const handlers = [make(Hold, () => hold(wait)), Handler.make(Quick, () => Effect.void)]
    yield* Effect.gen(function* () {
      const { sql } = yield* Database
      yield* Effect.replicateEffect(Hold.enqueue({}), jobs)
      yield* Effect.repeat(
        Effect.sync(() => held),
        { until: (count) => count === 3, schedule: Schedule.spaced("10 millis") }
      )
      const running = sql`select from nightshift.job where kind = 'hold' and status = 'running'`
      yield* Effect.repeat(running, { until: (rows) => rows.length === jobs, schedule: Schedule.spaced("10 millis") })
      const beats = sql<{ pod: string; job: string }>`
        select (select max(heartbeat_at) from nightshift.pod)::text as pod,
          (select min(heartbeat_at) from nightshift.job where kind = 'hold')::text as job`
      const [before] = yield* beats
      yield* Quick.enqueue({})
      yield* Effect.repeat(sql`select from nightshift.job where kind = 'quick' and status = 'done'`, {
        until: (rows) => rows.length === 1,
        schedule: Schedule.spaced("20 millis")
      })
      yield* Effect.repeat(beats, {
        until: ([now]) => now?.pod !== before?.pod && now?.job !== before?.job,
        schedule: Schedule.spaced("20 millis")
      })
      expect(yield* running).toHaveLength(jobs)
      expect(yield* Effect.flatMap(Database, ({ handlerPoolUse }) => handlerPoolUse)).toMatchObject({ busy: 3 })
      expect(held).toBe(3)
      yield* Deferred.succeed(gate, undefined)
      yield* Effect.repeat(sql`select from nightshift.job where status = 'done'`, {
        until: (rows) => rows.length === jobs + 1,
        schedule: Schedule.spaced("20 millis")
      })
    }).pipe(
      Effect.provide(Nightshift.layer({ handlers, queues: { default: 64 }, databaseUrl: url })),
      Effect.timeout("50 seconds"),
      Logger.withMinimumLogLevel(LogLevel.None)
    )
  }).pipe(Effect.provide(Layer.provideMerge(TestDatabase.layer, settings)))

const Limited = Job.make("limited", { payload: Schema.Struct({}), timeout: "1 minute" })
const Wide = RateLimit.make("wide", { capacity: 1_000, rate: 1_000 })
const Free = RateLimit.make("free", { capacity: 1_000, rate: 1_000 })

describe("transactional handlers", () => {
  it.scopedLive("get tokens of a limit while they hold every connection available to handlers", () =>
    Effect.gen(function* () {
      const url = yield* DatabaseUrl
      const open = yield* Deferred.make<void>()
      let begun = 0
      const handler = Handler.makeInTransaction(Limited, () =>
        Effect.gen(function* () {
          const { sql } = yield* Database
          yield* sql`select 1`
          begun += 1
          if (begun === 3) yield* Deferred.succeed(open, undefined)
          yield* Deferred.await(open)
          yield* Wide.acquire
        })
      )
      yield* Effect.gen(function* () {
        const { sql } = yield* Database
        yield* Effect.replicateEffect(Limited.enqueue({}), 10)
        yield* Deferred.await(open)
        const rows = sql<{
          status: string
          attempt: number
        }>`select status, attempt from nightshift.job where kind = 'limited'`
        yield* Effect.repeat(rows, {
          until: (jobs) => jobs.every(({ attempt, status }) => status === "done" || attempt > 1),
          schedule: Schedule.spaced("20 millis")
        })
        expect(yield* rows).toEqual(Array.from({ length: 10 }, () => ({ status: "done", attempt: 1 })))
      }).pipe(
        Effect.provide(
          Nightshift.layer({ handlers: [handler], limits: [Wide], queues: { default: 64 }, databaseUrl: url })
        ),
        Effect.timeout("20 seconds"),
        Logger.withMinimumLogLevel(LogLevel.None)
      )
    }).pipe(Effect.provide(Layer.provideMerge(TestDatabase.layer, settings)))
  )
})

describe("handlers that wait for a locked limit", () => {
  it.scopedLive("leave connections for claims, heartbeats, results and other limits", () =>
    Effect.gen(function* () {
      const url = yield* DatabaseUrl
      const foreign = yield* TestDatabase.connection
      const observer = yield* TestDatabase.connection
      const locking = (statement: string) => Effect.promise(() => foreign.query(statement))
      const observe = (statement: string) => Effect.promise(() => observer.query(statement))
      let begun = 0
      const limited = Handler.make(Limited, () =>
        Effect.suspend(() => {
          begun += 1
          return Wide.acquire
        })
      )
      const other = Job.make("other", { payload: Schema.Struct({}), queue: "other" })
      const handlers = [limited, Handler.make(other, () => Free.acquire)]
      yield* Effect.gen(function* () {
        yield* locking("begin")
        const locked = yield* locking("select from nightshift.rate_limit where scope = 'wide' for update")
        expect(locked.rows).toHaveLength(1)
        yield* Effect.replicateEffect(Limited.enqueue({}), 8)
        yield* Effect.repeat(
          Effect.sync(() => begun),
          { until: (count) => count === 8, schedule: Schedule.spaced("10 millis") }
        )
        yield* Effect.repeat(
          observe("select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"),
          {
            until: ({ rows }) => rows.length >= 1,
            schedule: Schedule.spaced("10 millis")
          }
        )
        const beat = "select min(heartbeat_at)::text as at from nightshift.job where kind = 'limited'"
        const before = yield* observe(beat)
        yield* other.enqueue({})
        yield* Effect.repeat(observe("select from nightshift.job where kind = 'other' and status = 'done'"), {
          until: ({ rows }) => rows.length === 1,
          schedule: Schedule.spaced("20 millis")
        })
        yield* Effect.repeat(observe(beat), {
          until: ({ rows }) => rows[0].at !== before.rows[0].at,
          schedule: Schedule.spaced("20 millis")
        })
        yield* locking("commit")
        const ended = observe(
          "select status, attempt from nightshift.job where kind = 'limited' and status <> 'running'"
        )
        yield* Effect.repeat(ended, {
          until: ({ rows }) => rows.length === 8,
          schedule: Schedule.spaced("20 millis")
        })
        expect((yield* ended).rows).toEqual(Array.from({ length: 8 }, () => ({ status: "done", attempt: 1 })))
      }).pipe(
        Effect.provide(
          Nightshift.layer({ handlers, limits: [Wide, Free], queues: { default: 64, other: 4 }, databaseUrl: url })
        ),
        Effect.timeout("15 seconds"),
        Logger.withMinimumLogLevel(LogLevel.None)
      )
    }).pipe(Effect.provide(Layer.provideMerge(TestDatabase.layer, settings)))
  )
})

describe("handlers that hold every connection available to them", () => {
  it.scopedLive("do not block claims, heartbeats or results, through the program's SQL client", () =>
    holding((wait) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(wait)))
  )

  it.scopedLive("do not block them through Nightshift's own transaction helpers", () =>
    holding((wait) => Effect.flatMap(Transactions, ({ run }) => run(wait)))
  )

  it.scopedLive("wait for each other without a time limit if they are transactional, and all end", () =>
    holding((wait) => Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.zipRight(sql`select 1`, wait)), {
      jobs: 63,
      make: Handler.makeInTransaction
    })
  )
})
