import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Deferred, Effect, Fiber, Layer, Logger, LogLevel, TestClock } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as LosingProxy from "../support/LosingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

const settings = (connectTimeout: string) =>
  Layer.setConfigProvider(
    ConfigProvider.fromMap(
      new Map([
        ["DATABASE_STATEMENT_TIMEOUT", "200ms"],
        ["DATABASE_CONNECT_TIMEOUT", connectTimeout]
      ])
    )
  )

const through = (proxy: LosingProxy.Stalling, connectTimeout = "2s") =>
  Database.layer.pipe(
    Layer.provide(DatabaseUrl.layerOf(proxy.url)),
    Layer.provide(DatabaseConfig.layer),
    Layer.provide(settings(connectTimeout)),
    Layer.provide(Logger.minimumLogLevel(LogLevel.None))
  )

/** Opens five connections by using them concurrently. */
const warm = ({ sql }: typeof Database.Service) =>
  Effect.replicateEffect(sql`select pg_sleep(0.05)`, 5, { concurrency: "unbounded", discard: true })

describe.concurrent("connections that a middlebox dropped silently", () => {
  it.scopedLive.each([{ replies: false }, { replies: true }])(
    "fail their pending queries, are closed and counted, and are replaced: %j",
    (how) =>
      Effect.gen(function* () {
        const proxy = yield* LosingProxy.stalling(yield* TestDatabase.migrated)
        yield* Effect.gen(function* () {
          const database = yield* Database
          const { direct, ping, poolUse, sql, transaction, unansweredStatements } = database
          yield* warm(database)
          yield* proxy.stall(how)
          const outcomes = yield* Effect.all(
            [
              Effect.flip(direct.count("select $1::int", [1])),
              Effect.flip(transaction(sql`select 2`)),
              Effect.flip(ping)
            ],
            { concurrency: "unbounded" }
          )
          for (const outcome of outcomes) {
            expect(outcome).toMatchObject({
              _tag: "DatabaseUnavailable",
              detail: expect.stringMatching(/did not answer within 2s200ms/)
            })
          }
          expect(yield* unansweredStatements).toBe(3)
          // The other two were idle and unverified, so they are closed without a timeout each.
          expect(yield* poolUse).toEqual({ busy: 0, idle: 0, waiting: 0 })
          yield* ping
        }).pipe(Effect.provide(through(proxy)))
      })
  )

  it.scoped("delay a process that must exit by three seconds in all, however many queries it still sends", () =>
    Effect.gen(function* () {
      const proxy = yield* LosingProxy.stalling(yield* TestDatabase.migrated)
      yield* Effect.gen(function* () {
        const database = yield* Database
        const { direct, beginShutdown, ping, poolUse, transaction, sql } = database
        yield* warm(database)
        const working = yield* Deferred.make<void>()
        yield* beginShutdown(Deferred.await(working))
        yield* proxy.stall({ new: true })
        const refused = { _tag: "DatabaseUnavailable", processEnds: true }
        const waiting = yield* Effect.fork(
          Effect.all(
            [
              Effect.flip(direct.count("select $1::int", [1])),
              Effect.flip(transaction(sql`select 2`)),
              Effect.flip(ping)
            ],
            { concurrency: "unbounded" }
          )
        )
        yield* TestClock.adjust("10 seconds")
        expect((yield* poolUse).busy).toBeGreaterThan(0)
        yield* Deferred.succeed(working, undefined)
        yield* TestClock.adjust("3 seconds")
        for (const error of yield* Fiber.join(waiting)) expect(error).toMatchObject(refused)
        expect(yield* Effect.flip(ping)).toMatchObject(refused)
        expect(yield* Effect.flip(transaction(sql`select 3`))).toMatchObject(refused)
      }).pipe(Effect.provide(through(proxy, "60s")))
    })
  )

  it.scopedLive("are distinguished from a transaction with a longer timeout", () =>
    Effect.gen(function* () {
      const proxy = yield* LosingProxy.stalling(yield* TestDatabase.migrated)
      yield* Effect.gen(function* () {
        const { sql, transaction } = yield* Database
        const slow = Effect.zipRight(sql`set local statement_timeout = '10s'`, sql`select pg_sleep(2.1), 1 as answer`)
        expect(yield* transaction(slow)).toMatchObject([{ answer: 1 }])
      }).pipe(Effect.provide(through(proxy)))
    })
  )
})
