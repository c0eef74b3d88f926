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
        expect(
          MigrationText.describe({ applied: Release.shipped, pending: large }).replace(name, "0002_kinds")
        ).toMatchInlineSnapshot(`
          "-- 1 migration pending. Nothing was applied.
          -- One transaction applies them all, so a lock is held from its statement to the end of the last one.
          -- A lock first waits for open transactions that use the table, and new ones wait behind it.
          -- Times are estimates for a small machine: they depend on its disk and load. Measure them on a copy.

          -- 0002_kinds
          -- Needs nightshift 0.1.0 or later: older processes must stop first.
          -- Takes about 2m50s. Meanwhile, other processes wait to use job, queue.

          -- Locks job (ACCESS EXCLUSIVE): blocks reads and writes.
          -- Does not depend on the size of the table.
          alter table job add column note text;

          -- Locks job (ACCESS EXCLUSIVE): blocks reads and writes.
          -- Does not depend on the size of the table.
          alter table job add column tenant text not null default 'none';

          -- Locks job (ACCESS EXCLUSIVE): blocks reads and writes.
          -- Writes all of job (about 1,200,000 rows, 1.4 GiB) and its indexes to new files: about 45s.
          alter table job add column token uuid default gen_random_uuid();

          -- Locks job (SHARE): blocks writes.
          -- Builds an index of job (about 1,200,000 rows, 1.4 GiB): about 6s.
          create index job_tenant on job (tenant, id);

          -- Locks job (ACCESS EXCLUSIVE): blocks reads and writes.
          -- Reads all of job (about 1,200,000 rows, 1.4 GiB): about 4s.
          alter table job alter column token set not null;

          -- Locks job (ACCESS EXCLUSIVE): blocks reads and writes.
          -- Does not depend on the size of the table.
          alter table job add constraint job_note_length check (length(note) < 1000) not valid;

          -- Locks job (SHARE UPDATE EXCLUSIVE): blocks vacuum and schema changes.
          -- Reads all of job (about 1,200,000 rows, 1.4 GiB): about 4s.
          alter table job validate constraint job_note_length;

          -- Locks job (ROW EXCLUSIVE): blocks writes to the rows that it changes.
          -- Changes rows of job (about 1,200,000 rows, 1.4 GiB): about 1m if it changes all.
          update job set note = 'old' where note is null;

          -- Locks job (ACCESS EXCLUSIVE): blocks reads and writes.
          -- Writes all of job (about 1,200,000 rows, 1.4 GiB) and its indexes to new files: about 45s.
          alter table job alter column version type bigint;

          create table note (job_id uuid primary key, text text not null);

          alter table note add column at timestamptz;

          -- Reads all of job (about 1,200,000 rows, 1.4 GiB): about 4s.
          insert into note (job_id, text) select id, note from job;

          -- Locks job (ACCESS EXCLUSIVE): blocks reads and writes.
          -- Does not depend on the size of the table.
          drop index job_cancelled_newest;

          create or replace function error_shape(error text) returns text language sql immutable parallel safe
          set search_path from current as $$ select left(error, 200) $$;

          -- Locks queue (ACCESS EXCLUSIVE): blocks reads and writes.
          -- Does not depend on the size of the table.
          do $$ begin alter table queue add column note text; end $$;"
        `)

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
