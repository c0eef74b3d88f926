import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer } from "effect"
import pg from "pg"
import { vi } from "vitest"
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

const described = hot("select $1::int as number, $2::jsonb as json, null::text as nothing where $1 <> 0")
const changed = hot("update counter set value = value / $1::int")

/** Runs an effect and returns how many descriptions of results it asked the server for. */
const descriptionsOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => vi.spyOn(pg.Connection.prototype as unknown as { describe: () => void }, "describe")),
    (spy) => Effect.map(effect, (value) => ({ value, descriptions: spy.mock.calls.length })),
    (spy) => Effect.sync(() => spy.mockRestore())
  )

const settings = (entries: Record<string, string>) =>
  Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(entries))))

describe("hot statements", () => {
  it.scopedLive("are prepared once under a name", () =>
    Effect.gen(function* () {
      expect(yield* preparedAfterUse).toHaveLength(1)
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )

  it.scopedLive("ask for the description of their result once per connection", () =>
    Effect.gen(function* () {
      const { direct, sql } = yield* Database
      const valuesOf = (n: number) => [n, JSON.stringify({ n })]
      const runs = Effect.forEach([7, 8, 0, 9], (n) => direct.rows(described, valuesOf(n)))
      const objects = Effect.forEach([5, 0, 6], (n) => sql.unsafe(described, valuesOf(n)))
      const { descriptions, value } = yield* descriptionsOf(Effect.all([runs, objects]))
      expect(value[0]).toEqual([[[7, { n: 7 }, null]], [[8, { n: 8 }, null]], [], [[9, { n: 9 }, null]]])
      expect(value[1]).toEqual([
        [{ number: 5, json: { n: 5 }, nothing: null }],
        [],
        [{ number: 6, json: { n: 6 }, nothing: null }]
      ])
      expect(descriptions).toBe(1)
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )

  it.scopedLive("return their counts and errors without a description", () =>
    Effect.gen(function* () {
      const { direct, sql } = yield* Database
      yield* sql.unsafe("create table counter as select 12 as value")
      const run = (by: number) => Effect.either(direct.count(changed, [by]))
      const { descriptions, value } = yield* descriptionsOf(Effect.forEach([2, 0, 3], run))
      expect(value.map((result) => (result._tag === "Right" ? result.right : result.left.message))).toEqual([
        1,
        expect.stringContaining("division by zero"),
        1
      ])
      // The pool closes a connection whose statement failed, so the last run asks again.
      expect(descriptions).toBe(2)
      expect(yield* sql.unsafe("select value from counter")).toEqual([{ value: 2 }])
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )

  it.scopedLive("are sent unprepared when a pooler cannot prepare them", () =>
    Effect.gen(function* () {
      expect(yield* preparedAfterUse).toHaveLength(0)
    }).pipe(Effect.provide(Layer.provide(TestDatabase.layerEmpty, settings({ DATABASE_PREPARE: "false" }))))
  )
})
