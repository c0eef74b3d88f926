import { describe, expect, it, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as LosingProxy from "../support/LosingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

const rows = (database: typeof Database.Service) =>
  Effect.map(database.sql<{ n: number }>`select n from kept order by n`, (found) => found.map(({ n }) => n))

const backendOf = (database: typeof Database.Service) =>
  Effect.map(database.sql<{ pid: number }>`select pg_backend_pid() as pid`, (found) => found[0]?.pid ?? 0)

const setup = Effect.gen(function* () {
  const database = yield* Database
  yield* database.sql`create table if not exists kept (n int primary key, parent int references kept deferrable initially deferred)`
  yield* database.sql`truncate kept`
  return database
})

layer(TestDatabase.layerEmpty, { excludeTestServices: true })("Transaction", (it) => {
  it.scoped("commits all changes", () =>
    Effect.gen(function* () {
      const database = yield* setup
      const answer = yield* database.transaction(
        database.sql`insert into kept values (1)`.pipe(
          Effect.zipRight(database.sql`insert into kept values (2)`),
          Effect.as("kept")
        )
      )
      expect(answer).toBe("kept")
      expect(yield* rows(database)).toEqual([1, 2])
    })
  )

  it.scoped("commits none when the effect fails, and returns the failure", () =>
    Effect.gen(function* () {
      const database = yield* setup
      const failure = yield* database
        .transaction(Effect.zipRight(database.sql`insert into kept values (1)`, Effect.fail("enough")))
        .pipe(Effect.flip)
      expect(failure).toBe("enough")
      expect(yield* rows(database)).toEqual([])
    })
  )

  it.scoped("rolls back to a savepoint inside another", () =>
    Effect.gen(function* () {
      const database = yield* setup
      yield* database.transaction(
        Effect.gen(function* () {
          yield* database.sql`insert into kept values (1)`
          yield* database
            .transaction(Effect.zipRight(database.sql`insert into kept values (2)`, Effect.fail("inner")))
            .pipe(Effect.ignore)
        })
      )
      expect(yield* rows(database)).toEqual([1])
    })
  )

  it.scoped("fails with a conflict when the COMMIT itself is refused", () =>
    Effect.gen(function* () {
      const database = yield* setup
      const failure = yield* database.transaction(database.sql`insert into kept values (1, 99)`).pipe(Effect.flip)
      expect(failure).toMatchObject({ _tag: "DatabaseConflict", sqlState: "23503" })
      expect(yield* rows(database)).toEqual([])
    })
  )

  it.scoped("does not report success when PostgreSQL rolled back because of an error that the effect handled", () =>
    Effect.gen(function* () {
      const database = yield* setup
      const failure = yield* database
        .transaction(
          Effect.zipRight(database.sql`insert into kept values (1)`, Effect.ignore(database.sql`select 1 / 0`))
        )
        .pipe(Effect.flip)
      expect(failure).toMatchObject({ _tag: "DatabaseUnavailable", sqlState: "25P02", nothingWritten: true })
      expect(yield* rows(database)).toEqual([])
    })
  )

  it.scoped("fails with a typed error when its backend is killed between two statements", () =>
    Effect.gen(function* () {
      const database = yield* setup
      const other = yield* TestDatabase.connection
      const failure = yield* database
        .transaction(
          Effect.gen(function* () {
            yield* database.sql`insert into kept values (1)`
            const pid = yield* backendOf(database)
            yield* Effect.promise(() => other.query("select pg_terminate_backend($1, 5000)", [pid]))
            yield* database.sql`insert into kept values (2)`
          })
        )
        .pipe(Effect.flip)
      expect(failure).toMatchObject({ _tag: "DatabaseUnavailable" })
      expect(yield* rows(database)).toEqual([])
    })
  )

  it.scoped("reports an unknown outcome when the answer to a COMMIT is lost, and here it was committed", () =>
    Effect.gen(function* () {
      const direct = yield* setup
      const url = yield* LosingProxy.open(yield* DatabaseUrl, "COMMIT")
      const throughProxy = Database.layer.pipe(
        Layer.provide(DatabaseUrl.layerOf(url)),
        Layer.provide(DatabaseConfig.layer)
      )
      const failure = yield* Effect.gen(function* () {
        const { sql, transaction } = yield* Database
        return yield* Effect.flip(transaction(sql`insert into kept values (1)`))
      }).pipe(Effect.provide(throughProxy))
      expect(failure).toMatchObject({ _tag: "DatabaseUnavailable", nothingWritten: false })
      // The server may still be committing when the client notices the lost connection.
      expect(yield* Effect.repeat(rows(direct), { until: (kept) => kept.length > 0 })).toEqual([1])
    })
  )

  it.scoped("rolls back when interrupted, and returns its connection", () =>
    Effect.gen(function* () {
      const database = yield* setup
      const fiber = yield* database
        .transaction(Effect.zipRight(database.sql`insert into kept values (1)`, database.sql`select pg_sleep(60)`))
        .pipe(Effect.fork)
      const other = yield* TestDatabase.connection
      const asleep = Effect.promise(() =>
        other.query("select 1 from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'")
      ).pipe(Effect.repeat({ until: ({ rowCount }) => rowCount === 1 }))
      yield* asleep
      yield* Fiber.interrupt(fiber)
      expect(yield* rows(database)).toEqual([])
      expect((yield* database.poolUse).busy).toBe(0)
    })
  )

  it.scoped("returns its connection when it is interrupted while it waits for one", () =>
    Effect.gen(function* () {
      const { poolUse, sql, transaction } = yield* Database
      for (let turn = 0; turn < 12; turn += 1) {
        const waiting = yield* Effect.fork(transaction(sql`select 1`))
        yield* Effect.yieldNow()
        yield* Fiber.interrupt(waiting)
      }
      expect(yield* transaction(sql`select 1 as one`)).toEqual([{ one: 1 }])
      yield* Effect.repeat(poolUse, { until: ({ busy }) => busy === 0, schedule: Schedule.spaced("10 millis") })
    })
  )
})

describe("a failed statement", () => {
  it.scopedLive("is classified wherever it happens", () =>
    Effect.gen(function* () {
      const database = yield* setup
      yield* database.sql`insert into kept values (1)`
      const conflict = yield* Effect.flip(database.transaction(database.sql`insert into kept values (1)`))
      expect(conflict).toMatchObject({ _tag: "DatabaseConflict", constraint: "kept_pkey" })
      const fault = yield* Effect.flip(database.transaction(database.sql`selct 1`))
      expect(fault).toMatchObject({ _tag: "DatabaseFault", sqlState: "42601" })
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )
})
