import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import { hot } from "../../src/database/Statements.js"
import * as TestDatabase from "../support/TestDatabase.js"

const doubled = hot("select $1::int * 2 as doubled")

/** Prepared statements of the only connection, after the statement ran three times. */
const preparedAfterUse = Effect.gen(function* () {
  const { sql } = yield* Database
  for (const n of [1, 2, 3]) {
    expect(yield* sql.unsafe(doubled, [n])).toEqual([{ doubled: n * 2 }])
  }
  return yield* sql<{ name: string }>`select name from pg_prepared_statements where statement = ${doubled}`
})

const settings = (entries: Record<string, string>) =>
  Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(entries))))

describe("hot statements", () => {
  it.scopedLive("are prepared once under a name", () =>
    Effect.gen(function* () {
      expect(yield* preparedAfterUse).toHaveLength(1)
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )

  it.scopedLive("are sent unprepared when a pooler cannot prepare them", () =>
    Effect.gen(function* () {
      expect(yield* preparedAfterUse).toHaveLength(0)
    }).pipe(Effect.provide(Layer.provide(TestDatabase.layerEmpty, settings({ DATABASE_PREPARE: "false" }))))
  )
})
