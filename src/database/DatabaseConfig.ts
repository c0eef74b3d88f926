import { Context, Effect, Either, Layer, Option } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"
import * as DatabaseUrl from "./DatabaseUrl.js"

const readUrl = (text: string) => {
  const fault = DatabaseUrl.fault(text)
  return fault === undefined ? Either.right(text) : Either.left(fault)
}

/** Words that PostgreSQL accepts as a name only in quotes, from pg_get_keywords(). */
const reserved = new Set(
  `all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
  column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
  current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
  from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
  localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references
  returning right select session_user similar some symmetric system_user table tablesample then to trailing true union
  unique user using variadic verbose when where window with`.split(/\s+/)
)

/**
 * Why a name cannot be that of the schema. It is an identifier that needs no quoting, so it can be inserted into SQL and
 * typed in psql as is. Channels for notifications are named after the schema; the longest suffix has 7 characters, and
 * names may have 63.
 */
export const schemaFault = (text: string): string | undefined =>
  /^[a-z_][a-z0-9_]{0,55}$/.test(text) && !text.startsWith("pg_") && !reserved.has(text)
    ? undefined
    : "a lower-case identifier of at most 56 letters, digits and _ that is not a reserved SQL word"

const readSchema = (text: string) => {
  const fault = schemaFault(text)
  return fault === undefined ? Either.right(text) : Either.left(fault)
}

export const settings = {
  url: Setting.secret(
    {
      key: "DATABASE_URL",
      about:
        "PostgreSQL server to use, as `postgres://user:password@host:port/database`. `?sslmode=verify-full` encrypts the connection and verifies the server."
    },
    readUrl
  ),
  listenUrl: Setting.secret(
    {
      key: "DATABASE_LISTEN_URL",
      about: "URL to listen on for notifications, if DATABASE_URL leads to a pooler. Must lead to PostgreSQL directly."
    },
    readUrl
  ),
  readUrl: Setting.secret(
    {
      key: "DATABASE_READ_URL",
      about:
        "URL of a streaming replica. Lists, searches, charts and exports of the HTTP API and Mission Control are read there; everything else uses DATABASE_URL."
    },
    readUrl
  ),
  readMaxLag: Setting.duration(
    {
      key: "DATABASE_READ_MAX_LAG",
      about: "Largest lag of the replica in DATABASE_READ_URL. While it is further behind, reads use DATABASE_URL."
    },
    "10s"
  ),
  embedded: Setting.boolean(
    {
      key: "NIGHTSHIFT_EMBEDDED",
      about:
        "Start an embedded PostgreSQL in NIGHTSHIFT_DIRECTORY. Takes precedence over DATABASE_URL, DATABASE_LISTEN_URL and DATABASE_READ_URL. Same as `--embedded`."
    },
    false
  ),
  directory: Setting.text(
    { key: "NIGHTSHIFT_DIRECTORY", about: "Data directory of the embedded PostgreSQL." },
    ".nightshift"
  ),
  schema: Setting.text({ key: "DATABASE_SCHEMA", about: "Schema of all Nightshift tables." }, "nightshift", readSchema),
  pool: Setting.integer(
    {
      key: "DATABASE_POOL",
      about: "Maximum number of connections for Nightshift's own statements in this process. They are opened on demand."
    },
    4,
    { min: 2, max: 500 }
  ),
  handlerPool: Setting.integer(
    {
      key: "DATABASE_HANDLER_POOL",
      about:
        "Maximum number of additional connections for handlers and the program's own statements. They are opened on demand."
    },
    3,
    { min: 1, max: 500 }
  ),
  statementTimeout: Setting.duration(
    {
      key: "DATABASE_STATEMENT_TIMEOUT",
      about: "Time limit of one statement, from 1ms to 10d. PostgreSQL cancels statements that take longer."
    },
    "30s",
    { min: "1ms", max: "10d" }
  ),
  connectTimeout: Setting.duration(
    { key: "DATABASE_CONNECT_TIMEOUT", about: "Maximum time to wait for a connection, from 1ms to 1h." },
    "5s",
    { min: "1ms", max: "1h" }
  ),
  bootTimeout: Setting.duration(
    {
      key: "DATABASE_BOOT_TIMEOUT",
      about:
        "How long to keep trying to reach the database at startup. If unset, commands other than `serve` and `migrate` try for 3s."
    },
    "30s"
  ),
  maxLifetime: Setting.duration(
    {
      key: "DATABASE_MAX_LIFETIME",
      about:
        "Maximum age of a connection, from 1s to 24d. The new connection may reach a different server, for example after a failover."
    },
    "30m",
    // A timer of more than 24.8 days fires at once.
    { min: "1s", max: "24d" }
  ),
  applicationName: Setting.text(
    { key: "DATABASE_APPLICATION_NAME", about: "Application name of the connections, as shown in pg_stat_activity." },
    "nightshift"
  ),
  prepare: Setting.boolean(
    {
      key: "DATABASE_PREPARE",
      about:
        "Use prepared statements for the most frequent statements. A pooler that does not support them is detected automatically; `false` avoids the errors in its log."
    },
    true
  )
}

/** PostgreSQL settings of this process. The URL is absent with an embedded server and without a database. */
export class DatabaseConfig extends Context.Tag("nightshift/database/DatabaseConfig")<
  DatabaseConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<DatabaseConfig, ConfigError> = Layer.effect(
    DatabaseConfig,
    Effect.map(Setting.group(settings), (given) =>
      given.embedded ? { ...given, listenUrl: Option.none(), readUrl: Option.none() } : given
    )
  )
}
