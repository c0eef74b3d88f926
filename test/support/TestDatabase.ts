import { randomBytes } from "node:crypto"
import { Effect, Layer, Option, Redacted, type Scope } from "effect"
import pg from "pg"
import { inject } from "vitest"
import { createDatabase, dropDatabase } from "../../scripts/matrix/citus.mjs"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import { Migrations } from "../../src/database/Migrations.js"

// One per process: opening two connections takes more CPU time than creating and dropping a database.
let server: pg.Pool | undefined

const administer = (statement: string) =>
  Effect.promise(() => {
    server ??= new pg.Pool({ connectionString: inject("serverUrl"), max: 2, idleTimeoutMillis: 0 })
      // A test may terminate all connections of the server. The pool opens another one.
      .on("error", () => {})
    return server.query(statement)
  })

// On the run's own server, copying files takes two thirds of the CPU time of the default, which writes every page to
// the WAL. PostgreSQL 14 does not have this option.
const strategy = process.env.TEST_DATABASE_URL === undefined ? "strategy file_copy" : ""

/** URLs of the workers, if TEST_DATABASE_URL is the coordinator of a Citus cluster. */
const workers = (process.env.TEST_CITUS_WORKERS ?? "").split(",").filter((url) => url !== "")
const isCitus = workers.length > 0

const createOn = (name: string, template: string) =>
  isCitus
    ? Effect.promise(() => createDatabase(inject("serverUrl"), workers, name))
    : administer(`create database ${name} template ${template} ${strategy}`)

/** Waits up to 100 ms for sessions to end: the `end` of a pool returns earlier, and a session that is ended is an error of it. */
const ended = (name: string) => `do $$ begin
  for i in 1..20 loop
    perform pg_stat_clear_snapshot();
    exit when not exists (select from pg_stat_activity where datname = '${name}');
    perform pg_sleep(0.005);
  end loop;
end $$`

const drop = (name: string) =>
  isCitus
    ? Effect.promise(() => dropDatabase(inject("serverUrl"), workers, name))
    : Effect.zipRight(administer(ended(name)), administer(`drop database if exists ${name} with (force)`))

/** Host and port of a pooler in front of the server. */
const pooler = process.env.TEST_POOLER

/** Creates a database on the run's server, dropped with the Scope even while clients are connected. */
const create = (template: string): Effect.Effect<Redacted.Redacted, never, Scope.Scope> =>
  Effect.gen(function* () {
    const name = `nightshift_test_${randomBytes(6).toString("hex")}`
    yield* Effect.acquireRelease(createOn(name, template), () => drop(name))
    const url = new URL(inject("serverUrl"))
    url.pathname = `/${name}`
    url.host = pooler ?? url.host
    return Redacted.make(url.href)
  })

/** Applies the migrations to an empty database. */
const migrate = (url: Redacted.Redacted) =>
  Effect.flatMap(Migrations, (migrations) => migrations.migrate).pipe(
    Effect.provide(Layer.provide(Migrations.layer, over(Effect.succeed(url)))),
    Effect.orDie
  )

/** A database without Nightshift's tables. */
export const empty: Effect.Effect<Redacted.Redacted, never, Scope.Scope> = create("template1")

/** A database with the current schema. One with Citus cannot be cloned. */
export const migrated: Effect.Effect<Redacted.Redacted, never, Scope.Scope> = Effect.suspend(() =>
  isCitus ? Effect.tap(empty, migrate) : create(inject("templateDatabase"))
)

/** Behind a pooler, notifications arrive on a direct connection. */
const configOf = (url: Redacted.Redacted) => {
  if (pooler === undefined) return DatabaseConfig.layer
  const direct = new URL(Redacted.value(url))
  direct.host = new URL(inject("serverUrl")).host
  return Layer.effect(
    DatabaseConfig,
    Effect.map(DatabaseConfig, (config) => ({ ...config, listenUrl: Option.some(Redacted.make(direct.href)) }))
  ).pipe(Layer.provide(DatabaseConfig.layer))
}

const over = (url: Effect.Effect<Redacted.Redacted, never, Scope.Scope>) =>
  Database.layer.pipe(
    Layer.provideMerge(
      Layer.unwrapScoped(Effect.map(url, (made) => Layer.merge(DatabaseUrl.layerOf(made), configOf(made))))
    ),
    Layer.orDie
  )

export const layerEmpty = over(empty)
export const layer = over(migrated)

/** Behind a proxy, such as one of `LosingProxy`. */
export const layerBehind = (proxy: (url: Redacted.Redacted) => Effect.Effect<Redacted.Redacted, never, Scope.Scope>) =>
  over(Effect.flatMap(migrated, proxy))

/** A separate connection, like another process's. */
export const connection: Effect.Effect<pg.Client, never, DatabaseUrl | Scope.Scope> = Effect.gen(function* () {
  const url = yield* DatabaseUrl
  return yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: Redacted.value(url) })
      // The test may terminate this connection's backend.
      client.on("error", () => {})
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end().catch(() => {}))
  )
})
