import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Database } from "../../src/database/Database.js"
import * as ClaimSql from "../../src/queue/claim/ClaimSql.js"
import * as JobSql from "../../src/queue/JobSql.js"
import * as TestDatabase from "../support/TestDatabase.js"

const statements = JobSql.make("nightshift")
const claims = ClaimSql.make("nightshift")
const id = "018f0000-0000-7000-8000-000000000000"
const one = `{${id}}`

/** Calls for one job, as an almost idle process makes them. */
const calls: ReadonlyArray<readonly [name: string, text: string, values: ReadonlyArray<unknown>]> = [
  ["finish", statements.finish, [one, one, 0, one, one]],
  [
    "finalize",
    statements.finalize,
    [one, one, "{done}", "{NULL}", "{true}", "{NULL}", "{NULL}", "{NULL}", "{NULL}", 0, one, "{NULL}", one]
  ],
  ["claim", claims.line, ["q", 0, 64, id, id, "{0}", "{0}", one]],
  ["claim by key", claims.keys, ["q", 0, 64, id, id, "{a}", "", "{}"]],
  ["heartbeat", statements.heartbeat, [one, one, 0]],
  ["next due", statements.nextDue, ["{default}", "{0}"]]
]

layer(TestDatabase.layer, { excludeTestServices: true })("prepared statements", (it) => {
  for (const [name, text, values] of calls) {
    it.scoped(`${name}: is not planned again at every call for one job`, () =>
      Effect.gen(function* () {
        const { direct, sql, transaction } = yield* Database
        // A transaction keeps all calls on one connection.
        const plans = yield* transaction(
          Effect.gen(function* () {
            for (let call = 0; call < 12; call += 1) yield* direct.rows(text, values)
            return yield* sql<{
              generic: number
              custom: number
            }>`select generic_plans::int as generic, custom_plans::int as custom
              from pg_prepared_statements where statement = ${text}`
          })
        )
        // PostgreSQL plans the first five calls separately to compare.
        expect(plans).toEqual([{ generic: 7, custom: 5 }])
      })
    )
  }
})
