import { Effect, Exit, Redacted, Scope } from "effect"
import pg from "pg"
import { afterAll, beforeAll } from "vitest"
import * as TestDatabase from "../support/TestDatabase.js"

/** A database for the tests of a file, as programs without Effect would use one. */
export const useDatabase = () => {
  let scope: Scope.CloseableScope
  let url = ""
  let pool: pg.Pool
  beforeAll(async () => {
    scope = await Effect.runPromise(Scope.make())
    url = Redacted.value(await Effect.runPromise(Scope.extend(TestDatabase.migrated, scope)))
    pool = new pg.Pool({ connectionString: url, max: 4 })
    pool.on("error", () => {})
  })
  afterAll(async () => {
    await pool.end()
    await Effect.runPromise(Scope.close(scope, Exit.void))
  })
  return {
    url: () => url,
    pool: () => pool,
    /** How many jobs of a kind there are. */
    count: async (kind: string) => {
      const { rows } = await pool.query("select count(*)::int as jobs from nightshift.job where kind = $1", [kind])
      return rows[0].jobs as number
    }
  }
}
