import type { Socket } from "node:net"
import { Effect, Exit, Redacted, Scope } from "effect"
import pg from "pg"
import { afterAll, beforeAll } from "vitest"
import * as LosingProxy from "../support/LosingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

const forward = (client: Socket, server: Socket) => {
  client.pipe(server)
  server.pipe(client)
  client.on("close", () => server.destroy())
}

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
    /** The database through a proxy, at a fixed address once `port` is known. */
    proxy: async (port = 0) => {
      const own = await Effect.runPromise(Scope.make())
      const through = await Effect.runPromise(
        Scope.extend(LosingProxy.listen(Redacted.make(url), forward, { host: "127.0.0.1", port }), own)
      )
      return { url: Redacted.value(through), close: () => Effect.runPromise(Scope.close(own, Exit.void)) }
    },
    /** How many jobs of a kind there are. */
    count: async (kind: string) => {
      const { rows } = await pool.query("select count(*)::int as jobs from nightshift.job where kind = $1", [kind])
      return rows[0].jobs as number
    }
  }
}
