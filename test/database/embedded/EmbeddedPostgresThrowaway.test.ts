import { existsSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { gone, holder } from "./fixtures/Holder.js"
import { eventually, query } from "./fixtures/Scratch.js"
import { startThrowaway } from "./fixtures/Started.js"

describe.concurrent("the throwaway PostgreSQL", () => {
  it.scopedLive("can be started several times, and leaves nothing behind", () =>
    Effect.gen(function* () {
      const directories = yield* Effect.scoped(
        Effect.gen(function* () {
          const both = yield* Effect.all([startThrowaway, startThrowaway], { concurrency: 2 })
          for (const { url } of both) {
            const found = yield* query(Redacted.value(url), "select current_setting('max_connections') as most")
            assert.deepStrictEqual(found, [{ most: "200" }])
          }
          return both.map(({ directory }) => directory)
        })
      )
      assert.strictEqual(new Set(directories).size, 2)
      assert.deepStrictEqual(directories.filter(existsSync), [])
    })
  )

  it.scopedLive("removes its directory when its process is killed", () =>
    Effect.gen(function* () {
      const process = yield* holder("throwaway")
      const server = yield* process.ready
      yield* process.kill("SIGKILL")
      yield* gone(server)
      yield* eventually(Effect.sync(() => !existsSync(server.directory)))
    })
  )

  it.scopedLive("is stopped even when it does not listen", () =>
    Effect.gen(function* () {
      const pid = yield* Effect.scoped(Effect.tap(startThrowaway, ({ pid }) => process.kill(pid, "SIGSTOP"))).pipe(
        Effect.map(({ pid }) => pid)
      )
      assert.throws(() => process.kill(pid, 0), /ESRCH/)
    })
  )
})
