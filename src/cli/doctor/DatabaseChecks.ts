import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Duration, Effect } from "effect"
import * as DurationText from "../../core/DurationText.js"
import * as Catalogue from "../../database/Catalogue.js"
import { Database } from "../../database/Database.js"
import { DatabaseTime } from "../../database/DatabaseClock.js"
import type { DatabaseConfig } from "../../database/DatabaseConfig.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import type { DatabaseUrl } from "../../database/DatabaseUrl.js"
import * as Listener from "../../database/Listener.js"
import { Migrations } from "../../database/Migrations.js"
import * as Package from "../../database/Package.js"
import { type Finding, fail, ok, warn } from "./Check.js"

/** Maximum number of differences listed. */
const maxNamed = 5

/** The schema this release expects, from migrations/schema.txt. */
const recorded: Effect.Effect<ReadonlyArray<string>> = Effect.sync(() =>
  readFileSync(join(Package.migrationsDirectory, "schema.txt"), "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("migration "))
)

const listed = (lines: ReadonlyArray<string>) =>
  lines.slice(0, maxNamed).join("; ") + (lines.length > maxNamed ? `; and ${lines.length - maxNamed} more` : "")

const compare = (expected: ReadonlyArray<string>, found: ReadonlyArray<string>) => {
  const [here, ours] = [new Set(found), new Set(expected)]
  const missing = expected.filter((line) => !here.has(line))
  const extra = found.filter((line) => !ours.has(line))
  const findings = []
  if (missing.length > 0) {
    const fix =
      "The tables were changed manually. Restore the missing objects with the SQL in migrations/ or from a backup."
    findings.push(fail(`Missing or changed: ${listed(missing)}.`, fix))
  }
  if (extra.length > 0) {
    const fix = "Drop it unless you added it on purpose. Extra indexes and triggers slow down every write."
    findings.push(warn(`Not part of this release: ${listed(extra)}.`, fix))
  }
  return findings
}

/** Checks for pending migrations and for manual changes to the schema. */
export const schema: Effect.Effect<ReadonlyArray<Finding>, DatabaseError, Database | Migrations> = Effect.gen(
  function* () {
    const { ahead, applied, pending } = yield* Effect.flatMap(Migrations, (migrations) => migrations.state)
    if (pending.length > 0) {
      const names = pending.map((file) => file.name).join(", ")
      return [fail(`Migrations are not applied: ${names}.`, "Run `nightshift migrate`.")]
    }
    if (ahead.length > 0) {
      const fix = "This release still works. Upgrade it to match the other processes."
      return [warn(`A newer release applied ${ahead.join(", ")}.`, fix)]
    }
    const differences = compare(yield* recorded, yield* Effect.flatMap(Database, Catalogue.describe))
    return differences.length > 0 ? differences : [ok(`Up to date with ${applied.at(-1)}, no differences.`)]
  }
).pipe(
  Effect.catchTags({
    SchemaTooNew: (error) => Effect.succeed([fail(error.message, "Upgrade Nightshift on this machine.")]),
    SchemaForeign: (error) =>
      Effect.succeed([fail(error.message, "Use another database, or install the release that created this schema.")]),
    SchemaUnreleased: (error) =>
      Effect.succeed([fail(error.message, "Drop the schema, then run `nightshift migrate`.")]),
    MigrationRefused: (error) => Effect.succeed([fail(error.message, error.todo)]),
    MigrationFailed: (error) => Effect.succeed([fail(error.message, "Run `nightshift migrate`.")]),
    MigrationFileInvalid: (error) => Effect.succeed([fail(error.message, "Reinstall Nightshift.")])
  }),
  Effect.map((found) => found.map((each) => ({ check: "schema", ...each })))
)

const toPrimary = "Point DATABASE_URL to the primary, or list all servers and add target_session_attrs=read-write."

/** Checks that the server accepts writes: it is not a standby, not read-only, and its disk is not full. */
export const writes: Effect.Effect<ReadonlyArray<Finding>, never, Database> = Effect.gen(function* () {
  const { mode, schema, sql } = yield* Database
  const found = yield* mode
  if (found === "standby") return fail("This server is a read-only standby.", toPrimary)
  if (found === "read-only") {
    return fail(
      "The server is in read-only mode.",
      "Unset default_transaction_read_only for the role and the database."
    )
  }
  // Changes no value, but writes a new row version.
  yield* mapErrors(sql`update ${sql(`${schema}.leader`)} set term = term`)
  return ok("The server accepts writes.")
}).pipe(
  Effect.catchAll((error) =>
    Effect.succeed(fail(`A write failed: ${error.detail}.`, "Fix this first: every job needs writes."))
  ),
  Effect.map((finding) => [{ check: "writes", ...finding }])
)

/** Checks whether NOTIFY reaches a listening process. */
export const notifications: Effect.Effect<
  ReadonlyArray<Finding>,
  never,
  DatabaseUrl | DatabaseConfig
> = Listener.delivery.pipe(
  Effect.timeout("15 seconds"),
  Effect.catchAll(() => Effect.succeed<Listener.Delivery>("none")),
  Effect.map((delivery) => {
    if (delivery === "direct") return ok("Notifications arrive.")
    if (delivery === "elsewhere")
      return warn(
        "DATABASE_LISTEN_URL leads to another database, so new jobs are found only by polling (QUEUE_POLL), and jobs of a killed process wait for QUEUE_STALE_AFTER.",
        "Set DATABASE_LISTEN_URL to a direct connection to the database of DATABASE_URL."
      )
    const fix = "Set DATABASE_LISTEN_URL to a direct PostgreSQL connection."
    return delivery === "forwarded"
      ? warn("Notifications arrive through a pooler, so jobs of a killed process wait for QUEUE_STALE_AFTER.", fix)
      : warn(
          "Notifications do not arrive, so new jobs are found only by polling (QUEUE_POLL), and jobs of a killed process wait for QUEUE_STALE_AFTER.",
          `If DATABASE_URL points to a pooler: ${fix}`
        )
  }),
  Effect.map((finding) => [{ check: "notifications", ...finding }])
)

/** Milliseconds. With a larger offset, the logs of this machine are hard to match with job times. */
const noticeable = 1_000

const shown = (millis: number) => DurationText.format(Duration.millis(Math.round(Math.abs(millis))))

/** Compares this machine's clock with the database's, which decides when jobs run. */
export const clock: Effect.Effect<ReadonlyArray<Finding>, never, DatabaseTime> = Effect.gen(function* () {
  const time = yield* DatabaseTime
  const offset = yield* time.offsetMillis
  const uncertainty = yield* time.uncertaintyMillis
  const differs = Math.abs(offset) < 1 ? "equals" : `is ${shown(offset)} ${offset > 0 ? "behind" : "ahead of"}`
  const summary = `This machine's clock ${differs} the database's, give or take ${shown(uncertainty)}`
  const fix =
    "Jobs use the database's time and are not affected. Enable NTP on this machine to get correct log timestamps."
  const found = Math.abs(offset) < noticeable ? ok(`${summary}.`) : warn(`${summary}.`, fix)
  return [{ check: "clock", ...found }]
})
