import * as SqlClient from "@effect/sql/SqlClient"
import { describe, expect, it } from "@effect/vitest"
import {
  ConfigProvider,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  LogLevel,
  Option,
  type Redacted,
  Schedule,
  Scope,
  Stream
} from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as LosingProxy from "../support/LosingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

/** Text of the statement that checks a new connection before its first use. */
const check = "pg_postmaster_start_time"

const over = (url: Redacted.Redacted, settings: Readonly<Record<string, string>>) =>
  Database.layer.pipe(
    Layer.provide(DatabaseUrl.layerOf(url)),
    Layer.provide(DatabaseConfig.layer),
    Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(settings))))),
    Layer.provide(Logger.minimumLogLevel(LogLevel.None))
  )

/** A proxy that can hold back the checks of new connections, and everything that follows them. */
const holdingChecks = (target: Redacted.Redacted) =>
  Effect.gen(function* () {
    const held: Array<() => void> = []
    let isHolding = false
    const url = yield* LosingProxy.listen(target, (client, server) => {
      let isHeld = false
      client.on("data", (bytes) => {
        isHeld = isHolding && (isHeld || bytes.includes(check))
        if (isHeld) held.push(() => server.write(bytes))
        else server.write(bytes)
      })
      server.pipe(client)
      client.on("close", () => server.destroy())
    })
    return {
      url,
      hold: Effect.sync(() => {
        isHolding = true
      }),
      release: Effect.sync(() => {
        isHolding = false
        for (const forward of held.splice(0)) forward()
      })
    }
  })

/** Repeats the effect until the condition holds. */
const until = <A, E>(look: Effect.Effect<A, E>, isSo: (found: A) => boolean) =>
  Effect.repeat(look, { until: isSo, schedule: Schedule.spaced("5 millis") }).pipe(
    Effect.zipRight(look),
    Effect.timeout("20 seconds")
  )

const empty = { busy: 0, idle: 0, waiting: 0 }
const small = { DATABASE_HANDLER_POOL: "1", DATABASE_CONNECT_TIMEOUT: "2s" }

describe.concurrent("the connections of handlers", () => {
  it.scopedLive("are closed if their first statement is not answered, and replaced", () =>
    Effect.gen(function* () {
      const proxy = yield* holdingChecks(yield* TestDatabase.migrated)
      yield* Effect.gen(function* () {
        const { handlerPoolUse } = yield* Database
        const sql = yield* SqlClient.SqlClient
        yield* proxy.hold
        const error = yield* Effect.flip(Effect.timeout(sql`select 1`, "20 seconds"))
        expect(error).toMatchObject({ _tag: "SqlError" })
        expect(yield* handlerPoolUse).toEqual(empty)
        yield* proxy.release
        yield* sql`select 2`
      }).pipe(Effect.provide(over(proxy.url, small)))
    })
  )

  it.scopedLive.each(["statement", "transaction"])(
    "are neither lost nor used if they open after their caller has timed out: %s",
    (caller) =>
      Effect.gen(function* () {
        const proxy = yield* holdingChecks(yield* TestDatabase.migrated)
        yield* Effect.gen(function* () {
          const { handlerPoolUse, sql: own } = yield* Database
          const sql = yield* SqlClient.SqlClient
          yield* own`create table public.late (n int)`
          // The only connection is busy when the caller begins to wait, and is lost while it waits.
          const holding = yield* Effect.fork(sql.withTransaction(sql`select pg_sleep(600)`))
          const [holder] = yield* until(
            own<{ pid: number }>`select pid from pg_stat_activity
            where datname = current_database() and wait_event = 'PgSleep'`,
            (rows) => rows.length > 0
          )
          const write = sql`insert into public.late values (1)`
          const waiting = yield* Effect.fork(Effect.flip(caller === "statement" ? write : sql.withTransaction(write)))
          yield* until(handlerPoolUse, (use) => use.waiting > 0)
          yield* proxy.hold
          yield* own`select pg_terminate_backend(${holder?.pid ?? 0})`
          yield* Fiber.await(holding)
          expect(yield* Fiber.join(waiting)).toMatchObject({ _tag: "SqlError" })
          yield* proxy.release
          yield* until(handlerPoolUse, (use) => use.busy === 0)
          expect(yield* sql`select n from public.late`).toEqual([])
        }).pipe(Effect.provide(over(proxy.url, small)))
      })
  )

  it.scopedLive.each(["reserve", "withTransaction", "stream"] as const)(
    "return to the pool if their caller was interrupted while it waited: %s",
    (caller) =>
      Effect.gen(function* () {
        yield* Effect.gen(function* () {
          const { handlerPoolUse } = yield* Database
          const sql = yield* SqlClient.SqlClient
          const callers = {
            reserve: Effect.scoped(Effect.zipRight(sql.reserve, Effect.never)),
            withTransaction: sql.withTransaction(Effect.never),
            stream: Stream.runDrain(Stream.zipRight(sql`select 1`.stream, Stream.never))
          }
          const holding = yield* Scope.make()
          yield* Scope.extend(sql.reserve, holding)
          const waiting = yield* Effect.fork(callers[caller])
          yield* until(handlerPoolUse, (use) => use.waiting > 0)
          // The interruption does not wait for a connection.
          yield* Fiber.interruptFork(waiting)
          yield* until(Fiber.poll(waiting), Option.isSome)
          yield* Scope.close(holding, Exit.void)
          yield* until(handlerPoolUse, (use) => use.busy === 0)
          yield* sql`select 2`
        }).pipe(Effect.provide(over(yield* TestDatabase.migrated, { DATABASE_HANDLER_POOL: "1" })))
      })
  )
})
