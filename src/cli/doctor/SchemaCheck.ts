import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import * as Catalogue from "../../database/Catalogue.js"
import { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Migrations } from "../../database/Migrations.js"
import * as Package from "../../database/Package.js"
import { type Finding, fail, ok, warn } from "./Check.js"

const name = "schema"
/** Maximum number of differences listed. */
const most = 5

/** The schema this release expects, from migrations/schema.txt. */
const recorded: Effect.Effect<ReadonlyArray<string>> = Effect.sync(() =>
  readFileSync(join(Package.migrationsDirectory, "schema.txt"), "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("migration "))
)

const listed = (lines: ReadonlyArray<string>) =>
  lines.slice(0, most).join("; ") + (lines.length > most ? `; and ${lines.length - most} more` : "")

const compare = (expected: ReadonlyArray<string>, found: ReadonlyArray<string>) => {
  const [here, ours] = [new Set(found), new Set(expected)]
  const missing = expected.filter((line) => !here.has(line))
  const extra = found.filter((line) => !ours.has(line))
  const findings = []
  if (missing.length > 0) {
    const fix =
      "Somebody changed the tables by hand. Restore what is missing, by the SQL in migrations/ or from a backup."
    findings.push(fail(`Not as migrated: ${listed(missing)}.`, fix))
  }
  if (extra.length > 0) {
    const fix = "If it is yours and meant, leave it: it costs every write. Otherwise drop it."
    findings.push(warn(`Not of this release: ${listed(extra)}.`, fix))
  }
  return findings
}

/** Checks for pending migrations and for manual changes to the schema. */
export const look: Effect.Effect<ReadonlyArray<Finding>, DatabaseError, Database | Migrations> = Effect.gen(
  function* () {
    const { ahead, applied, pending } = yield* Effect.flatMap(Migrations, (migrations) => migrations.state)
    if (pending.length > 0) {
      const names = pending.map((file) => file.name).join(", ")
      return [fail(`${pending.length} migrations are not applied: ${names}.`, "Run nightshift migrate.")]
    }
    if (ahead.length > 0) {
      const fix = "Nothing is broken. Upgrade this process when the others are."
      return [warn(`A newer release has applied ${ahead.join(", ")}.`, fix)]
    }
    const differences = compare(yield* recorded, yield* Effect.flatMap(Database, Catalogue.describe))
    return differences.length > 0 ? differences : [ok(`Current: ${applied.length} migrations, no difference.`)]
  }
).pipe(
  Effect.catchTags({
    SchemaTooNew: (error) => Effect.succeed([fail(error.message, "Upgrade nightshift here.")]),
    SchemaForeign: (error) => Effect.succeed([fail(error.message, "Point it elsewhere, or restore that release.")]),
    MigrationRefused: (error) => Effect.succeed([fail(error.message, error.todo)]),
    MigrationFailed: (error) => Effect.succeed([fail(error.message, "Run nightshift migrate.")]),
    MigrationFileInvalid: (error) => Effect.succeed([fail(error.message, "Install nightshift again.")])
  }),
  Effect.map((found) => found.map((each) => ({ check: name, ...each })))
)
