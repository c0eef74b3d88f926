import { Clock, Context, Effect, Layer, Option, Order, Schedule, Schema } from "effect"
import { Database } from "./Database.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"
import { type MigrationFile, type MigrationFileInvalid, readAll } from "./MigrationFile.js"
import * as MigrationPlan from "./MigrationPlan.js"
import * as Package from "./Package.js"
import * as SqlStatements from "./SqlStatements.js"

// Several processes may start at once on an empty database. Each one reads the applied migrations. If some are missing,
// it opens a transaction, locks the migration table, reads again and applies what is still missing. All migrations run
// in that one transaction, so a process that is killed half-way leaves the database unchanged.

/** The database was migrated by a newer release that is incompatible with this one. */
export class SchemaTooNew extends Schema.TaggedError<SchemaTooNew>()("SchemaTooNew", {
  migration: Schema.String,
  needs: Schema.String,
  code: Schema.String
}) {
  override get message(): string {
    return `The database has migration ${this.migration}, which needs nightshift ${this.needs} or later; this is nightshift ${this.code}. Upgrade this process.`
  }
}

/** An applied migration differs from the one that this release ships under the same number. */
export class SchemaForeign extends Schema.TaggedError<SchemaForeign>()("SchemaForeign", {
  applied: Schema.String,
  shipped: Schema.String,
  schema: Schema.String
}) {
  override get message(): string {
    return `Schema "${this.schema}" was built by another set of migrations: it has ${this.applied} where this release has ${this.shipped}. Use another DATABASE_URL or DATABASE_SCHEMA, or run the release that built it.`
  }
}

/** The schema was built by the migrations that development used before the first release. No upgrade from them exists. */
export class SchemaUnreleased extends Schema.TaggedError<SchemaUnreleased>()("SchemaUnreleased", {
  applied: Schema.String,
  schema: Schema.String
}) {
  override get message(): string {
    return `Schema "${this.schema}" was created by an unreleased version of nightshift (migration ${this.applied}) and cannot be upgraded: drop it (drop schema ${this.schema} cascade), or delete the directory of the embedded database, and start again.`
  }
}

/** The SQL of a migration failed and was rolled back. */
export class MigrationFailed extends Schema.TaggedError<MigrationFailed>()("MigrationFailed", {
  migration: Schema.String,
  detail: Schema.String
}) {
  override get message(): string {
    return `Migration ${this.migration} failed and was rolled back: ${this.detail}. Fix the cause, then migrate again.`
  }
}

/** The server does not allow this role to read or change the schema. */
export class MigrationRefused extends Schema.TaggedError<MigrationRefused>()("MigrationRefused", {
  /** What is not possible. */
  what: Schema.optionalWith(Schema.String, { default: () => "The schema cannot be created or changed" }),
  detail: Schema.String,
  todo: Schema.String
}) {
  override get message(): string {
    return `${this.what}: ${this.detail}. ${this.todo}`
  }
}

export type MigrationError =
  | SchemaTooNew
  | SchemaForeign
  | SchemaUnreleased
  | MigrationFailed
  | MigrationRefused
  | MigrationFileInvalid
  | DatabaseError

/** insufficient_privilege, read_only_sql_transaction */
const isRefusal = (error: MigrationError): boolean =>
  "sqlState" in error && (error.sqlState === "42501" || error.sqlState === "25006")

/** The schema of the database compared with this release. */
export interface SchemaState {
  readonly applied: ReadonlyArray<string>
  readonly pending: ReadonlyArray<MigrationFile>
  /** Applied by a newer release and compatible with this one. */
  readonly ahead: ReadonlyArray<string>
}

/** Migrates the database to the schema of this release. */
export class Migrations extends Context.Tag("nightshift/database/Migrations")<
  Migrations,
  {
    /** Compares without changing anything. Fails if this release must not run on the database. */
    readonly state: Effect.Effect<SchemaState, MigrationError>

    /** Describes the missing migrations: their locks, and how long they may take with the tables of this database. */
    readonly plan: Effect.Effect<MigrationPlan.MigrationPlan, MigrationError>

    /**
     * Applies the missing migrations. Safe to call from several processes at once. Returns the migrations that this
     * call applied.
     */
    readonly migrate: Effect.Effect<ReadonlyArray<MigrationFile>, MigrationError>
  }
>() {
  static readonly layer: Layer.Layer<Migrations, never, Database> = Layer.suspend(() =>
    layerOf(Package.migrationsDirectory, Package.version)
  )
}

interface AppliedRow {
  readonly number: number
  readonly name: string
  readonly checksum: string
  readonly oldest_code: string
}

/** Migrations from a folder; `code` is recorded as the release that applied them. */
export const layerOf = (directory: string, code: Package.Version): Layer.Layer<Migrations, never, Database> =>
  Layer.effect(
    Migrations,
    Effect.gen(function* () {
      const { schema, sql, transaction } = yield* Database
      // Cached: the files do not change while the process runs, and readiness checks read them often.
      const files = yield* Effect.cached(readAll(directory))
      const table = sql(`${schema}.migration`)

      // Citus can distribute the tables of a schema to its workers. It then rejects claims, which write several tables in
      // one statement.
      const refuseDistributed = Effect.gen(function* () {
        const found = yield* sql`
          select from pg_catalog.pg_dist_schema where schemaid = to_regnamespace(${schema})::oid`
        if (found.length === 0) return
        return yield* new MigrationRefused({
          detail: `Citus distributes schema ${schema}, and its planner does not support Nightshift's statements`,
          todo: `Stop all Nightshift processes and run "select citus_schema_undistribute('${schema}')".`
        })
      })

      const applied = Effect.gen(function* () {
        const [found] = yield* sql<{ there: boolean; citus: boolean }>`
          select to_regclass(${`${schema}.migration`}) is not null as there,
            to_regclass('pg_catalog.pg_dist_schema') is not null as citus`
        if (found?.citus === true) yield* refuseDistributed
        if (found?.there !== true) return []
        return yield* sql<AppliedRow>`select number, name, checksum, oldest_code from ${table} order by number`
      }).pipe(mapErrors)

      const state = Effect.gen(function* () {
        return yield* compare(yield* files, yield* applied, schema, code)
      })

      const plan = Effect.gen(function* () {
        const { applied, pending } = yield* state
        const sizes = yield* mapErrors(
          sql<MigrationPlan.TableSize>`
            select relname as table, nullif(reltuples, -1)::float8 as rows, pg_table_size(oid)::float8 as "tableBytes",
              pg_indexes_size(oid)::float8 as "indexBytes"
            from pg_catalog.pg_class where relnamespace = to_regnamespace(${schema}) and relkind = 'r'`
        )
        return { applied, pending: pending.map((file) => MigrationPlan.make(file, sizes)) }
      })

      /** Explains how to resolve the rejection. */
      const refusal = (detail: string, sqlState: string | undefined) =>
        Effect.gen(function* () {
          // The catalogue itself, because to_regclass requires the privilege USAGE.
          const [row] = yield* mapErrors(
            sql<{ role: string; database: string; there: boolean; hidden: boolean }>`
              select quote_ident(current_user) as role, quote_ident(current_database()) as database,
                n.oid is not null as there, c.oid is not null
                  and not (has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')) as hidden
              from (select) as one left join pg_catalog.pg_namespace n on n.nspname = ${schema}
              left join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = 'migration'`
          )
          const role = row?.role ?? "the role"
          if (row?.hidden === true) {
            return yield* new MigrationRefused({
              what: `Role ${role} may not use the tables of Nightshift`,
              detail,
              todo: `Let their owner run "grant usage on schema ${schema} to ${role}; grant select, insert, update, delete on all tables in schema ${schema} to ${role}; grant usage on all sequences in schema ${schema} to ${role}".`
            })
          }
          const on = row?.there === true ? `schema ${schema}` : `database ${row?.database}`
          const todo =
            sqlState === "42501"
              ? `Run "grant create on ${on} to ${role}", or let an owner run nightshift migrate.`
              : "The server is a standby or in read-only mode. Point DATABASE_URL to the primary."
          return yield* new MigrationRefused({ detail, todo })
        })

      const explained = <A>(effect: Effect.Effect<A, MigrationError>) =>
        Effect.catchAll(effect, (error): Effect.Effect<never, MigrationError> => {
          if (!isRefusal(error)) return Effect.fail(error)
          const { detail, sqlState } = error as DatabaseError
          return refusal(detail, sqlState)
        })

      // On a Citus node, schema and tables stay on this node as plain PostgreSQL tables, regardless of its settings for new
      // schemas. Other servers accept and ignore these settings.
      const keepLocal = Effect.forEach(
        ["citus.enable_schema_based_sharding", "citus.enable_ddl_propagation"],
        (name) => sql`select set_config(${name}, 'off', true)`,
        { discard: true }
      )

      // `create schema if not exists` requires the CREATE privilege even if the schema exists, so check for it first.
      // Two sessions that create the same name at once still conflict; the loser retries.
      const prepare = Effect.gen(function* () {
        yield* keepLocal
        const [row] = yield* sql<{ there: boolean }>`select to_regnamespace(${schema}) is not null as there`
        if (row?.there !== true) yield* sql.unsafe(`create schema if not exists ${schema}`)
        yield* sql.unsafe(
          `create table if not exists ${schema}.migration (
             number int primary key,
             name text not null,
             checksum text not null,
             oldest_code text not null,
             applied_at timestamptz not null,
             applied_by text not null
           )`
        )
      }).pipe(
        transaction,
        mapErrors,
        Effect.retry({
          while: (error) => !isRefusal(error),
          schedule: Schedule.recurs(10).pipe(Schedule.addDelay(() => "50 millis"))
        })
      )

      const apply = (file: MigrationFile) =>
        Effect.gen(function* () {
          const now = new Date(yield* Clock.currentTimeMillis)
          // One by one: Citus rejects several statements in one string.
          yield* Effect.forEach(SqlStatements.split(file.sql), (statement) => sql.unsafe(statement), { discard: true })
          yield* sql`insert into ${table} ${sql.insert({
            number: file.number,
            name: file.name,
            checksum: file.checksum,
            oldest_code: file.oldestCode.text,
            applied_at: now,
            applied_by: code.text
          })}`
        }).pipe(
          mapErrors,
          Effect.mapError((error) =>
            isRefusal(error) ? error : new MigrationFailed({ migration: file.name, detail: error.detail })
          ),
          Effect.zipRight(Effect.logInfo(`applied migration ${file.name}`))
        )

      const migrate = Effect.gen(function* () {
        if ((yield* state).pending.length === 0) return []
        yield* prepare
        return yield* transaction(
          Effect.gen(function* () {
            // A migration may take longer than the normal statement timeout.
            yield* sql`set local statement_timeout = 0`
            yield* keepLocal
            yield* sql`lock table ${table} in share row exclusive mode`
            // The functions keep this path. Unless it is listed, the caller's temporary schema is searched first.
            yield* sql`select set_config('search_path', ${`${schema}, pg_temp`}, true)`
            const { pending } = yield* state
            yield* Effect.forEach(pending, apply, { discard: true })
            return pending
          })
        )
      }).pipe(explained)

      return { state, plan: explained(plan), migrate }
    })
  )

/** The first migration of development; the first of a release is 0001_baseline. */
const firstUnreleased = "0001_job"

const compare = (
  files: ReadonlyArray<MigrationFile>,
  applied: ReadonlyArray<AppliedRow>,
  schema: string,
  code: Package.Version
): Effect.Effect<SchemaState, SchemaTooNew | SchemaForeign | SchemaUnreleased> =>
  Effect.gen(function* () {
    const first = applied[0]?.name
    if (first === firstUnreleased) return yield* new SchemaUnreleased({ applied: first, schema })
    const ahead: Array<string> = []
    for (const row of applied) {
      const file = files[row.number - 1]
      if (file === undefined) {
        const needs = Option.getOrElse(Package.parseVersion(row.oldest_code), () => code)
        if (Order.lessThan(Package.versionOrder)(code, needs)) {
          return yield* new SchemaTooNew({ migration: row.name, needs: needs.text, code: code.text })
        }
        ahead.push(row.name)
      } else if (file.checksum !== row.checksum) {
        const shipped = `${file.name} (${file.checksum.slice(0, 8)})`
        return yield* new SchemaForeign({ applied: `${row.name} (${row.checksum.slice(0, 8)})`, shipped, schema })
      }
    }
    return { applied: applied.map((row) => row.name), pending: files.slice(applied.length), ahead }
  })
