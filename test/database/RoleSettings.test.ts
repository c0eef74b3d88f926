import * as SqlClient from "@effect/sql/SqlClient"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import * as Catalogue from "../../src/database/Catalogue.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import * as PoolingProxy from "../support/PoolingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

const odd = [
  "array_nulls to off",
  "intervalstyle to iso_8601",
  "standard_conforming_strings to off",
  "default_transaction_isolation to serializable",
  "extra_float_digits to -15",
  "search_path to public, pg_catalog"
]

/** A database with unusual settings and a function that shadows a built-in one. */
const oddDatabase = Effect.gen(function* () {
  const url = yield* TestDatabase.migrated
  const name = new URL(Redacted.value(url)).pathname.slice(1)
  const owner = yield* Effect.provide(TestDatabase.connection, DatabaseUrl.layerOf(url))
  yield* Effect.promise(() =>
    owner.query(`create function public.to_timestamp(double precision) returns timestamptz language sql
      as $$ select '2001-01-01'::timestamptz $$`)
  )
  for (const setting of odd) yield* Effect.promise(() => owner.query(`alter database ${name} set ${setting}`))
  return url
})

const on = (url: Redacted.Redacted) =>
  QueuePg.layer.pipe(
    Layer.provide(Listener.layerPolling),
    Layer.provideMerge(Database.layer),
    Layer.provide(DatabaseUrl.layerOf(url)),
    Layer.provide(DatabaseConfig.layer)
  )

const described = Effect.flatMap(Database, Catalogue.describe)
const usual = Effect.provide(described, TestDatabase.layer)

describe("unusual settings of the role or the database", () => {
  it.scopedLive("change no job behaviour, inside and outside the program's transactions", () =>
    Effect.gen(function* () {
      const url = yield* oddDatabase
      yield* Effect.gen(function* () {
        const queue = yield* Queue
        const { sql } = yield* Database
        const mine = yield* SqlClient.SqlClient
        const job = (kind: string) => ({ kind, version: 1, queue: "default", payload: {}, attempts: 1 })
        yield* queue.enqueue([job("plain"), { ...job("keyed"), key: "k" }])
        yield* mine.withTransaction(queue.enqueue([job("inside"), { ...job("inside-keyed"), key: "k" }]))
        expect(
          yield* sql`select kind, key, extract(year from created_at) > 2001 as recent from nightshift.job order by kind`
        ).toEqual([
          { kind: "inside", key: null, recent: true },
          { kind: "inside-keyed", key: "k", recent: true },
          { kind: "keyed", key: "k", recent: true },
          { kind: "plain", key: null, recent: true }
        ])
        // Instants are read as floating-point numbers, which some settings round.
        const [plain] = yield* sql<{ id: string }>`select id from nightshift.job where kind = 'plain'`
        const { createdAt } = yield* Effect.flatMap(JobSearch, (search) => search.get((plain?.id ?? "") as JobId))
        expect(Math.abs(createdAt - Date.now())).toBeLessThan(60_000)
        expect(yield* sql`show transaction_isolation`).toEqual([{ transaction_isolation: "read committed" }])
      }).pipe(Effect.provide(on(url)))
    })
  )

  it.scopedLive("leave the server's keepalive short, so that it soon drops the transaction of a lost machine", () =>
    Effect.gen(function* () {
      const show = Effect.flatMap(Database, ({ sql }) =>
        Effect.all([
          sql`select name, setting from pg_settings where name like 'tcp_keep%' or name = 'tcp_user_timeout' order by name`,
          sql`show idle_in_transaction_session_timeout`
        ])
      )
      expect(yield* Effect.provide(show, on(yield* oddDatabase))).toEqual([
        [
          { name: "tcp_keepalives_count", setting: "3" },
          { name: "tcp_keepalives_idle", setting: "15" },
          { name: "tcp_keepalives_interval", setting: "5" },
          { name: "tcp_user_timeout", setting: "30000" }
        ],
        [{ idle_in_transaction_session_timeout: "35s" }]
      ])
    })
  )

  it.scopedLive("cause no schema difference, even behind a pooler that accepts no options", () =>
    Effect.gen(function* () {
      const url = yield* oddDatabase
      const expected = yield* usual
      expect(yield* Effect.provide(described, on(url))).toEqual(expected)
      expect(yield* Effect.provide(described, on(yield* PoolingProxy.open(url)))).toEqual(expected)
    })
  )
})
