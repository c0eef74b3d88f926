import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Logger, Redacted, Schedule, Schema } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { hot } from "../../src/database/Statements.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import * as PoolingProxy from "../support/PoolingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

const settings = (entries: Record<string, string>) =>
  Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(entries))))

const warnings: Array<string> = []
const logged = Logger.replace(
  Logger.defaultLogger,
  Logger.make(({ logLevel, message }) => {
    if (logLevel.label === "WARN") warnings.push(String(message))
  })
)

const Plain = Job.make("plain", { payload: Schema.Struct({}), attempts: 1 })
const Whole = Job.make("whole", { payload: Schema.Struct({}), attempts: 1 })

describe("behind a pooler in transaction mode without prepared statements", () => {
  it.scopedLive("every job finishes, with one warning", () =>
    Effect.gen(function* () {
      const databaseUrl = yield* PoolingProxy.open(yield* TestDatabase.migrated, { backends: 4 })
      warnings.length = 0
      const handlers = [Handler.make(Plain, () => Effect.void), Handler.makeInTransaction(Whole, () => Effect.void)]
      yield* Effect.gen(function* () {
        const { sql } = yield* Database
        const enqueue = Effect.all([Plain.enqueue({}), Whole.enqueue({})], { concurrency: "unbounded" })
        yield* Effect.replicateEffect(enqueue, 50, { concurrency: 10 })
        yield* Effect.repeat(sql`select from nightshift.job where status in ('pending', 'running') limit 1`, {
          until: (rows) => rows.length === 0,
          schedule: Schedule.spaced("50 millis")
        })
        expect(yield* sql`select status, count(*)::int from nightshift.job group by 1`).toEqual([
          { status: "done", count: 100 }
        ])
      }).pipe(
        Effect.provide(Nightshift.layer({ handlers, queues: ["default"], databaseUrl })),
        Effect.provide(Layer.merge(settings({ QUEUE_POLL: "100ms" }), logged))
      )
      expect(warnings.filter((text) => text.includes("prepared statements"))).toHaveLength(1)
    })
  )

  it.scopedLive("a statement whose name was lost is sent again, and later ones are unnamed", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      const doubled = hot("select $1::int * 2 as doubled, 'lost' as what")
      expect(yield* sql.unsafe(doubled, [1])).toMatchObject([{ doubled: 2 }])
      yield* sql`deallocate all`
      const inside = yield* Effect.flip(transaction(sql.unsafe(doubled, [2])))
      expect(inside).toMatchObject({ _tag: "DatabaseUnavailable", sqlState: "26000", nothingWritten: true })
      expect(yield* transaction(sql.unsafe(doubled, [3]))).toMatchObject([{ doubled: 6 }])
      expect(yield* sql.unsafe(doubled, [4])).toMatchObject([{ doubled: 8 }])
    }).pipe(
      Effect.provide(Layer.provide(TestDatabase.layerEmpty, settings({ DATABASE_POOL: "2" }))),
      Effect.provide(logged)
    )
  )

  it.scopedLive("the first transactions succeed, although a name that is lost inside one would abort it", () =>
    Effect.gen(function* () {
      const url = yield* PoolingProxy.open(yield* TestDatabase.empty, { backends: 2 })
      const doubled = hot("select $1::int * 2 as doubled, 'first' as what")
      yield* Effect.gen(function* () {
        const { sql, transaction } = yield* Database
        const results = yield* Effect.forEach(
          [1, 2, 3, 4, 5, 6],
          (n) => transaction(sql.unsafe<{ doubled: number }>(doubled, [n])),
          { concurrency: 3 }
        )
        expect(results.flat().map((row) => row.doubled)).toEqual([2, 4, 6, 8, 10, 12])
      }).pipe(
        Effect.provide(
          Layer.provide(Database.layer, [DatabaseUrl.layerOf(url), Layer.provide(DatabaseConfig.layer, settings({}))])
        )
      )
    }).pipe(Effect.provide(logged))
  )

  it.scopedLive("startup parameters that the pooler rejects are omitted", () =>
    Effect.gen(function* () {
      for (const ignored of [[], ["statement_timeout", "options"]]) {
        const url = yield* PoolingProxy.open(yield* TestDatabase.empty, { ignored })
        const layer = Database.layer.pipe(
          Layer.provide(DatabaseUrl.layerOf(url)),
          Layer.provide(DatabaseConfig.layer),
          Layer.provide(settings({ DATABASE_BOOT_TIMEOUT: "5s" }))
        )
        yield* Effect.provide(
          Effect.flatMap(Database, ({ ping }) => ping),
          layer
        )
      }
    }).pipe(Effect.provide(logged))
  )

  it.scopedLive("notifications are known not to arrive, unless a direct connection is configured", () =>
    Effect.gen(function* () {
      const direct = yield* TestDatabase.empty
      const pooled = yield* PoolingProxy.open(direct)
      const arrive = (entries: Record<string, string>) =>
        Listener.delivery.pipe(
          Effect.provide(DatabaseUrl.layerOf(pooled)),
          Effect.provide(Layer.provide(DatabaseConfig.layer, settings(entries)))
        )
      expect(yield* arrive({})).toBe("none")
      expect(yield* arrive({ DATABASE_LISTEN_URL: Redacted.value(direct) })).toBe("direct")
    })
  )
})
