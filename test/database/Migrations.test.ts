import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Redacted } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Migrations from "../../src/database/Migrations.js"
import * as Package from "../../src/database/Package.js"
import * as TestDatabase from "../support/TestDatabase.js"

const version = (text: string) => Option.getOrThrow(Package.parseVersion(text))

const migrationsFolder = (files: Record<string, string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = mkdtempSync(join(tmpdir(), "migrations-"))
      for (const [file, sql] of Object.entries(files)) writeFileSync(join(folder, file), sql)
      return folder
    }),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
  )

/** Runs these files as this release's migrations on the provided database. */
const release = (files: Record<string, string>, code = "0.1.0") =>
  Effect.gen(function* () {
    const folder = yield* migrationsFolder(files)
    const context = yield* Layer.build(Migrations.layerOf(folder, version(code)))
    return yield* Effect.provide(Migrations.Migrations, context)
  })

const one = "-- Oldest code: 0.1.0\ncreate table lamp (id int primary key);"
const two = "-- Oldest code: 0.1.0\nalter table lamp add column lit boolean;\ncreate table shade (id int);"

const tables = Effect.gen(function* () {
  const { sql } = yield* Database
  const found = yield* sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema = 'nightshift' order by 1`
  return found.map(({ name }) => name)
})

const onEmpty = Effect.provide(TestDatabase.layerEmpty)

describe("Migrations", () => {
  it.scopedLive("are applied in order, once, into the schema", () =>
    Effect.gen(function* () {
      const migrations = yield* release({ "0001_lamp.sql": one, "0002_shade.sql": two })
      expect((yield* migrations.state).pending.map(({ name }) => name)).toEqual(["0001_lamp", "0002_shade"])
      expect(yield* tables).toEqual([])
      expect((yield* migrations.migrate).map(({ name }) => name)).toEqual(["0001_lamp", "0002_shade"])
      expect(yield* tables).toEqual(["lamp", "migration", "shade"])
      expect(yield* migrations.migrate).toEqual([])
    }).pipe(onEmpty)
  )

  it.scopedLive("survive five concurrent first starts: one of them applies each file", () =>
    Effect.gen(function* () {
      const files = { "0001_lamp.sql": one, "0002_shade.sql": two }
      const starts = yield* Effect.all(
        Array.from({ length: 5 }, () => Effect.flatMap(release(files), (migrations) => migrations.migrate)),
        { concurrency: "unbounded" }
      )
      expect(starts.flat().map(({ name }) => name)).toEqual(["0001_lamp", "0002_shade"])
      expect(yield* tables).toEqual(["lamp", "migration", "shade"])
    }).pipe(onEmpty)
  )

  it.scopedLive("leave nothing behind when the backend is killed midway, and are applied at the next start", () =>
    Effect.gen(function* () {
      const slow = "-- Oldest code: 0.1.0\ncreate table shade (id int);\nselect pg_sleep(60);"
      const doomed = yield* release({ "0001_lamp.sql": one, "0002_shade.sql": slow })
      const start = yield* Effect.fork(Effect.flip(doomed.migrate))
      const other = yield* TestDatabase.connection
      const kill = Effect.promise(() =>
        other.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and pid <> pg_backend_pid() and wait_event = 'PgSleep'`
        )
      )
      yield* Effect.repeat(kill, { until: ({ rowCount }) => rowCount === 1 })
      expect(yield* Fiber.join(start)).toMatchObject({ _tag: "MigrationFailed", migration: "0002_shade" })
      expect(yield* tables).toEqual(["migration"])
      const next = yield* release({ "0001_lamp.sql": one, "0002_shade.sql": two })
      yield* next.migrate
      expect(yield* tables).toEqual(["lamp", "migration", "shade"])
    }).pipe(onEmpty)
  )

  it.scopedLive("name the file whose SQL is invalid, and keep no file of that start", () =>
    Effect.gen(function* () {
      const migrations = yield* release({
        "0001_lamp.sql": one,
        "0002_shade.sql": "-- Oldest code: 0.1.0\ncreate tabel x;"
      })
      const failure = yield* Effect.flip(migrations.migrate)
      expect(failure.message).toBe(
        'Migration 0002_shade failed and was rolled back: syntax error at or near "tabel". Fix the cause, then migrate again.'
      )
      expect(yield* tables).toEqual(["migration"])
    }).pipe(onEmpty)
  )

  it.scopedLive("let older code run on a newer schema that allows it", () =>
    Effect.gen(function* () {
      const newer = yield* release({ "0001_lamp.sql": one, "0002_shade.sql": two }, "0.2.0")
      yield* newer.migrate
      const older = yield* release({ "0001_lamp.sql": one }, "0.1.0")
      expect(yield* older.migrate).toEqual([])
      expect((yield* older.state).ahead).toEqual(["0002_shade"])
    }).pipe(onEmpty)
  )

  it.scopedLive("refuse older code on a newer schema that forbids it, naming both versions", () =>
    Effect.gen(function* () {
      const breaking = two.replace("0.1.0", "0.2.0")
      const newer = yield* release({ "0001_lamp.sql": one, "0002_shade.sql": breaking }, "0.2.0")
      yield* newer.migrate
      const older = yield* release({ "0001_lamp.sql": one }, "0.1.0")
      const failure = yield* Effect.flip(older.migrate)
      expect(failure.message).toBe(
        "The database has migration 0002_shade, which needs nightshift 0.2.0 or later; this is nightshift 0.1.0. Upgrade this process."
      )
    }).pipe(onEmpty)
  )

  it.scopedLive("refuse a schema that was built from different files under the same numbers", () =>
    Effect.gen(function* () {
      yield* (yield* release({ "0001_lamp.sql": one })).migrate
      const foreign = yield* release({ "0001_lamp.sql": `${one} -- changed after it was applied` })
      expect(yield* Effect.flip(foreign.migrate)).toMatchObject({ _tag: "SchemaForeign", schema: "nightshift" })
    }).pipe(onEmpty)
  )

  it.scopedLive("refuse a schema of an unreleased version, and say to drop it", () =>
    Effect.gen(function* () {
      yield* (yield* release({ "0001_job.sql": one, "0002_enqueue.sql": two })).migrate
      const released = yield* release({ "0001_baseline.sql": one })
      for (const attempt of [Effect.asVoid(released.state), Effect.asVoid(released.migrate)]) {
        expect((yield* Effect.flip(attempt)).message).toBe(
          'Schema "nightshift" was created by an unreleased version of nightshift (migration 0001_job) and cannot be upgraded: drop it (drop schema nightshift cascade), or delete the directory of the embedded database, and start again.'
        )
      }
    }).pipe(onEmpty)
  )

  it.scopedLive("send each statement separately", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const three =
        "-- Oldest code: 0.1.0\ncreate table seen as select query from pg_stat_activity\n  where pid = pg_backend_pid();\ncreate table shade ();"
      yield* (yield* release({ "0001_lamp.sql": one, "0002_seen.sql": three })).migrate
      expect(yield* sql`select query from nightshift.seen`).toEqual([
        { query: "create table seen as select query from pg_stat_activity\n  where pid = pg_backend_pid()" }
      ])
    }).pipe(onEmpty)
  )

  it.scopedLive("refuse a folder with a gap, an invalid name or no stated oldest code", () =>
    Effect.gen(function* () {
      for (const files of [{ "0002_shade.sql": two }, { "first.sql": one }, { "0001_lamp.sql": "select 1" }]) {
        const migrations = yield* release(files)
        expect(yield* Effect.flip(migrations.state)).toMatchObject({ _tag: "MigrationFileInvalid" })
      }
    }).pipe(onEmpty)
  )
})

/** Runs the effect on an empty database as a new role without privileges. */
const asGuest = <A, E, R>(prepare: (role: string) => string, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const owner = yield* TestDatabase.connection
    const url = new URL(Redacted.value(yield* DatabaseUrl))
    const role = `guest_${randomBytes(4).toString("hex")}`
    yield* Effect.acquireRelease(
      Effect.promise(() => owner.query(`create role ${role} login password 'guest'; ${prepare(role)}`)),
      () => Effect.promise(() => owner.query(`drop owned by ${role} cascade; drop role ${role}`))
    )
    Object.assign(url, { username: role, password: "guest" })
    return yield* Effect.provide(
      effect,
      Database.layer.pipe(
        Layer.provide(DatabaseUrl.layerOf(Redacted.make(url.href))),
        Layer.provide(DatabaseConfig.layer)
      )
    )
  }).pipe(Effect.scoped, onEmpty)

const migrateOnce = Effect.flatMap(release({ "0001_lamp.sql": one }), (migrations) => migrations.migrate)

describe("Migrations by a role without ownership", () => {
  it.scopedLive("name the missing grants", () =>
    Effect.gen(function* () {
      const onDatabase = yield* Effect.flip(asGuest(() => "", migrateOnce))
      expect(onDatabase.message).toMatch(/permission denied.*grant create on database nightshift_test_\w+ to guest_/)
      const onSchema = yield* Effect.flip(
        asGuest((role) => `create schema nightshift; grant usage on schema nightshift to ${role}`, migrateOnce)
      )
      expect(onSchema.message).toMatch(/permission denied.*grant create on schema nightshift to guest_/)
    })
  )

  it.scopedLive("need no right to create schemas when their schema exists", () =>
    asGuest((role) => `create schema nightshift authorization ${role}`, Effect.zipRight(migrateOnce, tables)).pipe(
      Effect.map((found) => expect(found).toEqual(["lamp", "migration"]))
    )
  )

  it.scopedLive("report a read-only server", () =>
    asGuest((role) => `alter role ${role} set default_transaction_read_only = on`, Effect.flip(migrateOnce)).pipe(
      Effect.map((error) =>
        expect(error.message).toMatch(/standby or in read-only mode\. Point DATABASE_URL to the primary/)
      )
    )
  )
})
