import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Package from "../../src/database/Package.js"
import * as TestDatabase from "../support/TestDatabase.js"
import * as Dump from "./Dump.js"
import * as Release from "./Release.js"

const sample = readFileSync(join(Dump.fixtures, "sample.sql"), "utf8")

/** Rows of the dump that a later state of the database lacks or has changed. New columns are not compared. */
const differences = (before: Dump.Contents, after: Dump.Contents) =>
  Object.entries(before).flatMap(([table, rows]) =>
    rows.flatMap((row, index) => {
      const now = after[table]?.[index]
      const changed = Object.keys(row).filter((column) => now?.[column] !== row[column])
      return changed.length === 0 ? [] : [`${table} ${row.id ?? index}: ${changed.join(", ")}`]
    })
  )

describe("the dump of 0.1.0", () => {
  it.scopedLive("has rows in every table, and jobs in every state", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.empty
      yield* Dump.restore(url)
      const contents = yield* Dump.read(url)
      expect(Object.keys(contents).filter((table) => contents[table]?.length === 0)).toEqual([])
      const states = yield* Dump.connected(url, (client) =>
        client.query<{ state: string; jobs: number }>(
          `select concat_ws(' ', status, dead_reason, case when woken is not null then 'execution' when key is not null then 'with a key'
             when dedupe_key is not null then dedupe_scope when batch_id is not null then 'of a batch' end,
             case when status = 'pending' and last_error is not null then 'retrying' when status = 'pending' and run_at > created_at then 'scheduled'
             end) collate "C" as state, count(*)::int as jobs from job group by 1 order by 1`
        )
      )
      expect(states.rows.map(({ jobs, state }) => `${jobs} ${state}`)).toEqual([
        "1 dead cancelled",
        "1 dead cancelled execution",
        "1 dead exhausted",
        "1 dead not_undone",
        "1 dead poison",
        "2 dead rejected",
        "1 dead rejected execution",
        "1 dead undecodable",
        "1 dead unknown_kind",
        "8 done",
        "2 done of a batch",
        "1 done retained",
        "1 pending",
        "1 pending active scheduled",
        "10 pending execution scheduled",
        "1 pending of a batch scheduled",
        "2 pending retrying",
        "2 pending scheduled",
        "3 pending with a key",
        "1 pending with a key retrying",
        "2 running",
        "1 running execution",
        "1 running with a key"
      ])
    })
  )

  it.scopedLive("keeps every row through all later migrations of this release", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.empty
      yield* Dump.restore(url)
      const before = yield* Dump.read(url)
      const applied = yield* Dump.migrateWith(Package.migrationsDirectory, Package.version.text, url)
      expect(applied).toEqual(Release.shipped.slice(1))
      expect(differences(before, yield* Dump.read(url))).toEqual([])
    })
  )

  it.scopedLive("keeps every row through a migration that adds a column, an index and a table", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.empty
      yield* Dump.restore(url)
      const before = yield* Dump.read(url)
      const name = `${Release.nextNumber}_sample`
      const folder = yield* Release.migrationsOf(Release.shipped, { [`${name}.sql`]: sample })
      expect(yield* Dump.migrateWith(folder, "0.2.0", url)).toEqual([...Release.shipped.slice(1), name])
      const after = yield* Dump.read(url)
      expect(differences(before, after)).toEqual([])
      expect(after.job?.every(({ tenant }) => tenant === "none")).toBe(true)
    })
  )
})
