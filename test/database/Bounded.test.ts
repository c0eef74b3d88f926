import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Database, within } from "../../src/database/Database.js"
import * as TestDatabase from "../support/TestDatabase.js"

const settings = Effect.gen(function* () {
  const { sql } = yield* Database
  const [row] = yield* sql<{ timeout: string; workers: string }>`
    select current_setting('statement_timeout') as timeout, current_setting('max_parallel_workers_per_gather') as workers`
  return row
})

layer(TestDatabase.layer, { excludeTestServices: true })("a bounded query", (it) => {
  it.effect("runs under server-side limits on one processor, and leaves none behind", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const before = yield* settings
      expect(yield* within(database, "250 millis")(settings)).toEqual({ timeout: "250ms", workers: "0" })
      expect(yield* settings).toEqual(before)
    })
  )

  it.effect("is cancelled by the server when a statement takes longer", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const ended = yield* Effect.flip(within(database, "50 millis")(database.sql`select pg_sleep(60)`))
      expect(ended).toMatchObject({ _tag: "DatabaseUnavailable", sqlState: "57014" })
    })
  )
})
