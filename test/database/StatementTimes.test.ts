import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { Database } from "../../src/database/Database.js"
import { hot, named } from "../../src/database/Statements.js"
import * as TestDatabase from "../support/TestDatabase.js"

describe("statement times", () => {
  it.scopedLive("record each statement's name and duration, including failed ones, until the scope closes", () =>
    Effect.gen(function* () {
      const { onStatement, sql, transaction } = yield* Database
      const { count, napping } = named("test", {
        count: hot("select count(*)::int as n from generate_series(1, $1::int)"),
        napping: "select pg_sleep(0.05)"
      })
      const heard: Array<readonly [operation: string, millis: number]> = []
      const scope = yield* Scope.make()
      yield* Scope.extend(
        onStatement((operation, millis) => void heard.push([operation, millis])),
        scope
      )
      expect(yield* sql.unsafe(count, [7])).toEqual([{ n: 7 }])
      yield* sql.unsafe(napping)
      yield* Effect.ignore(sql`select 1 / 0`)
      yield* transaction(sql`select 1`)
      expect(heard.map(([operation]) => operation)).toEqual([
        "test_count",
        "test_napping",
        "other",
        "other",
        "other",
        "commit"
      ])
      expect(heard[1]?.[1]).toBeGreaterThanOrEqual(50)
      yield* Scope.close(scope, Exit.void)
      yield* sql`select 1`
      expect(heard.length).toBe(6)
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )
})
