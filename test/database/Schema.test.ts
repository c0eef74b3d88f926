import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Catalogue from "../../src/database/Catalogue.js"
import { Database } from "../../src/database/Database.js"
import * as MigrationFile from "../../src/database/MigrationFile.js"
import * as Package from "../../src/database/Package.js"
import * as TestDatabase from "../support/TestDatabase.js"
import * as Effects from "../upgrades/Effects.js"

/** The SHA-256 of migrations/0001_baseline.sql. It has been released and never changes. */
const baseline = "499dbe5751616347fbf0b2d7081f779da3e2b6fab50543abfd710e7eaf16458c"

const recorded = (file: string) => join(Package.migrationsDirectory, file)

const current = Effect.gen(function* () {
  const files = yield* MigrationFile.readAll(Package.migrationsDirectory)
  const lines = yield* Effect.flatMap(Database, Catalogue.describe)
  return [...files.map(({ checksum, name }) => `migration ${name} ${checksum}`), ...lines, ""].join("\n")
})

describe("the schema", () => {
  it.effect("keeps its baseline", () =>
    Effect.gen(function* () {
      const files = yield* MigrationFile.readAll(Package.migrationsDirectory)
      const next = String(files.length + 1).padStart(4, "0")
      expect(
        files[0]?.checksum,
        `migrations/0001_baseline.sql was edited. Databases that have applied it never see the edit, and processes refuse to start on them. Undo it (git checkout migrations/0001_baseline.sql) and write the change as migrations/${next}_noun.sql: see "Migrations" in CONTRIBUTING.md.`
      ).toBe(baseline)
    })
  )

  it.scopedLive("changes only by new migrations", () =>
    Effect.gen(function* () {
      // Recorded with `npm run schema`. A line of an existing migration that differs here means that its file was edited:
      // databases in the field would never see the edit, so undo it and add a migration.
      const text = yield* current
      yield* Effect.promise(() => expect(text).toMatchFileSnapshot(recorded("schema.txt")))
    }).pipe(Effect.provide(TestDatabase.layer))
  )

  it.scopedLive("has a record of what each migration locks and reads, for `migrate --dry-run`", () =>
    Effect.gen(function* () {
      const text = yield* Effects.measure(Package.migrationsDirectory, yield* TestDatabase.empty)
      yield* Effect.promise(() => expect(text).toMatchFileSnapshot(recorded(MigrationFile.effectsFile)))
    })
  )
})
