import { existsSync, readdirSync, readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { gone, holder, serversOn } from "../database/embedded/fixtures/Holder.js"
import { eventually, query, scratch } from "../database/embedded/fixtures/Scratch.js"
import { start } from "../database/embedded/fixtures/Started.js"

describe.concurrent("the durable embedded PostgreSQL after a kill", () => {
  it.scopedLive("ends with a killed process, and the next start has all committed data", () =>
    Effect.gen(function* () {
      const first = yield* holder("durable", join(yield* scratch, ".nightshift"))
      const server = yield* first.ready
      yield* query(server.url, "create table kept as select 7 as x")
      yield* first.kill("SIGKILL")
      yield* first.exited
      // Starts at once, while the old server may still be shutting down.
      const { url } = yield* start(server.directory)
      assert.deepStrictEqual(yield* query(Redacted.value(url), "select x from kept"), [{ x: 7 }])
    })
  )

  it.scopedLive("leaves no server running after kill -9", () =>
    Effect.gen(function* () {
      const first = yield* holder("durable", join(yield* scratch, ".nightshift"))
      const server = yield* first.ready
      yield* Effect.fork(Effect.ignore(query(server.url, "select pg_sleep(60)")))
      yield* first.kill("SIGKILL")
      yield* first.exited
      // Takes two seconds on an idle machine; the bound allows for a loaded one.
      yield* Effect.timeout(gone(server), "20 seconds")
    })
  )

  it.scopedLive("reports that the server was killed, and recovers at the next start", () =>
    Effect.gen(function* () {
      const directory = join(yield* scratch, ".nightshift")
      const message = yield* Effect.scoped(
        Effect.gen(function* () {
          const { ended, pid, url } = yield* start(directory)
          yield* query(Redacted.value(url), "create table kept as select 7 as x")
          process.kill(pid, "SIGKILL")
          return (yield* Effect.timeout(ended, "30 seconds")).message
        })
      )
      assert.match(message, /exited unexpectedly .*\. Restart the process to recover\./)
      const { url } = yield* start(directory)
      assert.deepStrictEqual(yield* query(Redacted.value(url), "select x from kept"), [{ x: 7 }])
    })
  )

  it.scopedLive("starts after a process was killed while it created the database", () =>
    Effect.gen(function* () {
      const directory = join(yield* scratch, ".nightshift")
      const first = yield* holder("durable", directory)
      const halfWay = () =>
        readdirSync(directory).some((name) => existsSync(join(directory, name, "PG_VERSION")) && name !== "data")
      yield* eventually(Effect.sync(() => existsSync(directory) && halfWay()))
      yield* first.kill("SIGKILL")
      yield* first.exited
      assert.isFalse(existsSync(join(directory, "data")))
      const { url } = yield* start(directory)
      assert.deepStrictEqual(yield* query(Redacted.value(url), "select 1 as one"), [{ one: 1 }])
    })
  )

  it.scopedLive("is not misled by an old server's pid that another process reuses", () =>
    Effect.gen(function* () {
      const directory = join(yield* scratch, ".nightshift")
      yield* Effect.scoped(start(directory))
      yield* Effect.promise(() => writeFile(join(directory, "data/postmaster.pid"), `${process.pid}\n${directory}\n`))
      const { url } = yield* start(directory)
      assert.deepStrictEqual(yield* query(Redacted.value(url), "select 1 as one"), [{ one: 1 }])
    })
  )

  it.scopedLive("leaves no server when its start is interrupted", () =>
    Effect.gen(function* () {
      const directory = join(yield* scratch, ".nightshift")
      const starting = yield* Effect.fork(Effect.scoped(start(directory)))
      yield* eventually(Effect.sync(() => existsSync(join(directory, "data/postmaster.pid"))))
      const pid = Number.parseInt(readFileSync(join(directory, "data/postmaster.pid"), "utf8"), 10)
      yield* Fiber.interrupt(starting)
      assert.deepStrictEqual(yield* serversOn(join(directory, "data"), pid), [])
      assert.deepStrictEqual(readdirSync(join(directory, "lock")), [])
    })
  )
})
