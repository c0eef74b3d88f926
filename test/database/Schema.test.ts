import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Catalogue from "../../src/database/Catalogue.js"
import { Database } from "../../src/database/Database.js"
import * as MigrationFile from "../../src/database/MigrationFile.js"
import * as Package from "../../src/database/Package.js"
import * as TestDatabase from "../support/TestDatabase.js"

const recorded = join(Package.migrationsDirectory, "schema.txt")

const current = Effect.gen(function* () {
  const files = yield* MigrationFile.readAll(Package.migrationsDirectory)
  const lines = yield* Effect.flatMap(Database, Catalogue.describe)
  return [...files.map(({ checksum, name }) => `migration ${name} ${checksum}`), ...lines, ""].join("\n")
})

describe("the schema", () => {
  it.scopedLive("changes only by new migrations", () =>
    Effect.gen(function* () {
      // Recorded with `npm run schema`. A line of an existing migration that differs here means that its file was edited:
      // databases in the field would never see the edit, so undo it and add a migration.
      const text = yield* current
      yield* Effect.promise(() => expect(text).toMatchFileSnapshot(recorded))
    }).pipe(Effect.provide(TestDatabase.layer))
  )
})
