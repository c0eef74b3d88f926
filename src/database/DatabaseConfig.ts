import { Context, Either, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"
import * as DatabaseUrl from "./DatabaseUrl.js"

const readUrl = (text: string) => {
  const fault = DatabaseUrl.fault(text)
  return fault === undefined ? Either.right(text) : Either.left(fault)
}

/** An identifier that needs no quoting, so that people can type it in psql and it can stand in SQL as it is. */
const readSchema = (text: string) =>
  /^[a-z_][a-z0-9_]{0,62}$/.test(text) && !text.startsWith("pg_")
    ? Either.right(text)
    : Either.left("a lower-case identifier of at most 63 letters, digits and _")

export const settings = {
  url: Setting.secret(
    { key: "DATABASE_URL", about: "The PostgreSQL to use, as `postgres://user:password@host:port/database`." },
    readUrl
  ),
  listenUrl: Setting.secret(
    {
      key: "DATABASE_LISTEN_URL",
      about: "Where to listen for notifications, when DATABASE_URL leads to a pooler that does not pass them on."
    },
    readUrl
  ),
  embedded: Setting.boolean(
    {
      key: "NIGHTSHIFT_EMBEDDED",
      about: "Run on a PostgreSQL of our own, kept in NIGHTSHIFT_DIRECTORY. Beats DATABASE_URL. Same as `--embedded`."
    },
    false
  ),
  directory: Setting.text(
    { key: "NIGHTSHIFT_DIRECTORY", about: "Where the embedded PostgreSQL keeps its data." },
    ".nightshift"
  ),
  schema: Setting.text(
    { key: "DATABASE_SCHEMA", about: "The schema that holds every table of Nightshift." },
    "nightshift",
    readSchema
  ),
  pool: Setting.integer(
    { key: "DATABASE_POOL", about: "How many connections Nightshift's own statements may hold in this process." },
    10,
    { min: 2, max: 500 }
  ),
  handlerPool: Setting.integer(
    {
      key: "DATABASE_HANDLER_POOL",
      about:
        "How many more connections handlers and the program's own statements may hold. They are opened when they are needed."
    },
    10,
    { min: 1, max: 500 }
  ),
  statementTimeout: Setting.duration(
    { key: "DATABASE_STATEMENT_TIMEOUT", about: "The longest one statement may run before PostgreSQL ends it." },
    "30s"
  ),
  connectTimeout: Setting.duration(
    { key: "DATABASE_CONNECT_TIMEOUT", about: "The longest to wait for a connection." },
    "5s"
  ),
  bootPatience: Setting.duration(
    { key: "DATABASE_BOOT_PATIENCE", about: "How long to go on trying to reach the database at start." },
    "30s"
  ),
  maxLifetime: Setting.duration(
    {
      key: "DATABASE_MAX_LIFETIME",
      about: "How long a connection is used before a new one replaces it, which may lead to another server."
    },
    "30m"
  ),
  applicationName: Setting.text(
    { key: "DATABASE_APPLICATION_NAME", about: "The name PostgreSQL shows for our connections." },
    "nightshift"
  ),
  prepare: Setting.boolean(
    {
      key: "DATABASE_PREPARE",
      about: "Prepare the hottest statements. A pooler that cannot is noticed; `false` saves it the errors."
    },
    true
  )
}

/** How this process uses PostgreSQL. The url is absent on an embedded server, and without a database. */
export class DatabaseConfig extends Context.Tag("nightshift/database/DatabaseConfig")<
  DatabaseConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<DatabaseConfig, ConfigError> = Layer.effect(
    DatabaseConfig,
    Setting.group(settings)
  )
}
