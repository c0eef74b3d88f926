import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const batch = "0198c0de-0000-7000-8000-00000000dead"

describe("nightshift batches", () => {
  it.scopedLive("lists and shows batches, as text and as JSON", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
      const run = (...args: ReadonlyArray<string>) => Nightshift.call(args, { cwd, env })
      expect(yield* run("batches", "list")).toMatchObject({ code: 0, stdout: "No batches.\n" })
      const client = new pg.Client({ connectionString: env.DATABASE_URL })
      yield* Effect.promise(() => client.connect())
      yield* Effect.promise(() =>
        client.query(`insert into nightshift.batch (id, created_at, total, name) values ('${batch}', now(), 2, 'May')`)
      )
      yield* Effect.promise(() => client.end())
      expect((yield* run("batches", "list")).stdout).toMatch(
        new RegExp(`^BATCH .*\\n.*\\n${batch} +May +0 unfinished +2 `)
      )
      expect(JSON.parse((yield* run("batches", "list", "--json")).stdout).batches).toMatchObject([{ id: batch }])
      const shown = yield* run("batches", "show", batch)
      expect(shown.stdout).toMatch(
        /\njobs +2: 0 unfinished, 0 done, 0 dead, 0 cancelled, 2 deleted\nfollow-up +none\n$/
      )
      expect(yield* run("batches", "show", "x")).toMatchObject({ code: 2 })
      expect((yield* run("jobs", "list", "--batch", batch)).stdout).toBe("No jobs match this filter.\n")
    })
  )
})
