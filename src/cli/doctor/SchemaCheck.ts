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
export const look: Effect.Effect<ReadonlyArray<Finding>, DatabaseError, Database | Migrations> = Effect.gen(
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
  Effect.map((found) => found.map((each) => ({ check: name, ...each })))
)
