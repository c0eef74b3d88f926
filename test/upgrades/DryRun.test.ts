import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import * as MigrationText from "../../src/cli/MigrationText.js"
import * as MigrationFile from "../../src/database/MigrationFile.js"
import * as MigrationPlan from "../../src/database/MigrationPlan.js"
import * as Migrations from "../../src/database/Migrations.js"
import * as Package from "../../src/database/Package.js"
import * as TestDatabase from "../support/TestDatabase.js"
import * as Dump from "./Dump.js"
import * as Effects from "./Effects.js"
import * as Release from "./Release.js"

const kinds = readFileSync(join(Dump.fixtures, "kinds.sql"), "utf8")
/** What the dry run says about it. */
const described = readFileSync(join(Dump.fixtures, "kinds.txt"), "utf8")
const name = `${Release.nextNumber}_kinds`

/** A release with a migration of many kinds of statements, and the record of what they do. */
const release = Effect.gen(function* () {
  const folder = yield* Release.migrationsOf(Release.shipped, { [`${name}.sql`]: kinds })
  writeFileSync(join(folder, MigrationFile.effectsFile), yield* Effects.measure(folder, yield* TestDatabase.empty))
  return folder
})

const sizes: ReadonlyArray<MigrationPlan.TableSize> = [
  { table: "job", rows: 1_200_000, tableBytes: 1_500e6, indexBytes: 300e6 },
  { table: "queue", rows: null, tableBytes: 16_384, indexBytes: 16_384 }
]

describe("nightshift migrate --dry-run", () => {
  it.scopedLive(
    "describes what each statement locks and does, and estimates the time from the sizes of the tables",
    () =>
      Effect.gen(function* () {
        const folder = yield* release
        const files = yield* MigrationFile.readAll(folder)
        const large = files.slice(Release.shipped.length).map((file) => MigrationPlan.make(file, sizes))
        const text = MigrationText.describe({ applied: Release.shipped, pending: large })
        expect(`${text.replace(name, "0002_kinds")}\n`).toBe(described)

        // With the sizes of this database, and without a change to it.
        const context = yield* Layer.build(Migrations.layerOf(folder, Option.getOrThrow(Package.parseVersion("0.2.0"))))
        const migrations = yield* Effect.provide(Migrations.Migrations, context)
        const { pending } = yield* migrations.plan
        expect(pending.map((each) => each.name)).toEqual([name])
        expect(pending[0]?.seconds).toBeGreaterThanOrEqual(0)
        const work = pending[0]?.statements.flatMap((statement) => statement.work) ?? []
        expect(work.some(({ table }) => table === "job")).toBe(true)
        expect((yield* migrations.state).pending.length).toBe(1)
      }).pipe(Effect.provide(TestDatabase.layer))
  )

  it.scopedLive("says so if the release has no record of a migration", () =>
    Effect.gen(function* () {
      const folder = yield* Release.migrationsOf(Release.shipped, { [`${name}.sql`]: kinds })
      const files = yield* MigrationFile.readAll(folder)
      const pending = files.slice(Release.shipped.length).map((file) => MigrationPlan.make(file, sizes))
      expect(pending[0]?.seconds).toBe(null)
      expect(MigrationText.describe({ applied: Release.shipped, pending })).toContain(
        "-- Locks and times are not known: this release has no record of them."
      )
    })
  )
})
