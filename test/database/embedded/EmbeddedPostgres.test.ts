import { execFileSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { chmod, mkdir, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Redacted } from "effect"
import { EmbeddedPostgres, launchDurable, running } from "../../../src/database/embedded/EmbeddedPostgres.js"
import { holder } from "./fixtures/Holder.js"
import { query, scratch } from "./fixtures/Scratch.js"
import { start, startThrowaway } from "./fixtures/Started.js"

const asRoot = process.getuid?.() === 0
const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)
const refusalOf = (directory: string) =>
  Effect.map(Effect.flip(Effect.scoped(start(directory))), ({ message }) => message)

describe.concurrent("the durable embedded PostgreSQL", () => {
  it.scopedLive(
    "answers on port and socket to clients with the password, and protects its files from other users",
    () =>
      Effect.gen(function* () {
        const { directory, port, socketDirectory, url } = yield* start(join(yield* scratch, "a/.nightshift"))
        const settings = yield* query(
          Redacted.value(url),
          `select string_agg(setting, ' ' order by name) as found from pg_settings where name in ('fsync', 'synchronous_commit',
         'full_page_writes', 'data_checksums', 'TimeZone', 'listen_addresses', 'server_encoding')`
        )
        assert.deepStrictEqual(settings, [{ found: "UTC on on on 127.0.0.1 UTF8 on" }])
        const password = readFileSync(join(directory, "password"), "utf8").trim()
        for (const host of ["127.0.0.1", socketDirectory]) {
          const known = { host, port, user: "postgres", database: "postgres", password }
          assert.deepStrictEqual(yield* query(known, "select 1 as one"), [{ one: 1 }])
          const refused = yield* Effect.flip(query({ ...known, password: "guess" }, "select 1"))
          assert.match(`${refused.cause}`, /password authentication failed/)
        }
        const modes = ["", "data", "run", "lock", "password", "postgres.log"].map((name) =>
          modeOf(join(directory, name))
        )
        // Under root, the server's user needs group access to enter the directory, and nothing more.
        assert.deepStrictEqual(modes, [asRoot ? "710" : "700", "700", "700", "700", "600", "600"])
        assert.strictEqual(statSync(directory).uid, process.getuid?.())
        assert.strictEqual(statSync(join(directory, "data")).uid === 0, false)
      })
  )

  it.scopedLive("keeps its data, password and port at the second start, in a directory of any name", () =>
    Effect.gen(function* () {
      const directory = join(yield* scratch, `it's "quoted", é`, "x".repeat(120))
      const before = yield* Effect.scoped(
        Effect.gen(function* () {
          const { socketDirectory, url } = yield* start(directory)
          yield* query(Redacted.value(url), "create table kept as select 7 as x")
          return { socketDirectory, url: Redacted.value(url) }
        })
      )
      assert.isFalse(existsSync(before.socketDirectory))
      // Started in the background, as `serve` does, and stopped during the start.
      const launched = Effect.flatMap(launchDurable(directory), (server) => Effect.provide(EmbeddedPostgres, server))
      yield* Effect.scoped(launchDurable(directory))
      assert.deepStrictEqual(readdirSync(join(directory, "lock")), [])
      assert.isFalse(existsSync(join(directory, "data/postmaster.pid")))
      const { url } = yield* launched
      assert.strictEqual(Redacted.value(url), before.url)
      assert.deepStrictEqual(yield* query(Redacted.value(url), "select x from kept"), [{ x: 7 }])
      // A launch itself does not fail; building the layer reports the error.
      assert.match((yield* Effect.flip(Effect.scoped(launched))).message, /in use by process/)
    })
  )

  it.scopedLive("refuses a second process and names the first, which other processes can find", () =>
    Effect.gen(function* () {
      const directory = join(yield* scratch, ".nightshift")
      assert.isTrue(Option.isNone(yield* running(directory)))
      const first = yield* holder("durable", directory)
      const { url } = yield* first.ready
      assert.match(
        yield* refusalOf(directory),
        new RegExp(`in use by process ${first.pid} on .* since 20.*\\. Stop that`)
      )
      assert.deepStrictEqual(Option.map(yield* running(directory), Redacted.value), Option.some(url))
      yield* first.kill("SIGTERM")
      yield* first.exited
      assert.isTrue(Option.isNone(yield* running(directory)))
      assert.deepStrictEqual(readdirSync(join(directory, "lock")), [])
    })
  )

  it.scopedLive("starts on a copy of a directory whose server is running", () =>
    Effect.gen(function* () {
      const parent = yield* scratch
      const [original, copy] = [join(parent, "a"), join(parent, "b")]
      const first = yield* start(original)
      yield* query(Redacted.value(first.url), "create table copied as select 7 as x")
      execFileSync("cp", ["-a", original, copy])
      const second = yield* start(copy)
      assert.notStrictEqual(second.pid, first.pid)
      assert.deepStrictEqual(yield* query(Redacted.value(second.url), "select x from copied"), [{ x: 7 }])
      assert.deepStrictEqual(yield* query(Redacted.value(first.url), "select x from copied"), [{ x: 7 }])
    })
  )

  it.scopedLive("takes another port when its last one is in use", () =>
    Effect.gen(function* () {
      const parent = yield* scratch
      yield* Effect.scoped(start(join(parent, "a")))
      const other = yield* startThrowaway
      yield* Effect.promise(() => writeFile(join(parent, "a/port"), `${other.port}`))
      const { port } = yield* start(join(parent, "a"))
      assert.notStrictEqual(port, other.port)
      assert.strictEqual(readFileSync(join(parent, "a/port"), "utf8"), `${port}\n`)
    })
  )

  it.scopedLive("refuses an unusable directory, with the reason and the fix", () =>
    Effect.gen(function* () {
      const parent = yield* scratch
      const at = (name: string) => join(parent, name)
      yield* Effect.promise(async () => {
        await writeFile(at("file"), "")
        for (const name of ["others", "old/data", "broken/data", "lost"]) await mkdir(at(name), { recursive: true })
        await writeFile(at("others/thesis.tex"), "")
        await writeFile(at("old/data/PG_VERSION"), "9.6\n")
        await writeFile(at("old/password"), "x")
        await writeFile(at("broken/data/base"), "")
      })
      yield* Effect.scoped(start(at("lost")))
      yield* Effect.promise(() => rm(at("lost/password")))
      assert.match(yield* refusalOf(at("file")), /a file is in the way\. Move the file away/)
      assert.match(yield* refusalOf(at("file/below")), /a file is in the way\. Move the file away/)
      assert.match(yield* refusalOf(at("others")), /it contains other files \(thesis.tex\)\. Choose an empty or a new/)
      assert.strictEqual(modeOf(at("others")), "755")
      assert.match(
        yield* refusalOf(at("old")),
        /contains data of PostgreSQL 9.6, but this release runs PostgreSQL 18\. /
      )
      assert.match(yield* refusalOf(at("broken")), /is not a PostgreSQL database\. Move it away/)
      assert.match(yield* refusalOf(at("lost")), /its password file is missing\. Restore the file/)
      if (process.platform === "linux") {
        assert.match(yield* refusalOf("/proc/nightshift"), /it cannot be created\. Choose another/)
      }
    })
  )

  it.scopedLive("shows the end of the server's log when it does not start", () =>
    Effect.gen(function* () {
      const directory = join(yield* scratch, ".nightshift")
      yield* Effect.scoped(start(directory))
      yield* Effect.promise(() =>
        writeFile(join(directory, "data/postgresql.auto.conf"), "shared_buffers = 'plenty'\n")
      )
      const message = yield* refusalOf(directory)
      assert.match(message, /did not start in .*nightshift \(.*postgresql.auto.conf.*contains errors\)/)
      assert.match(readFileSync(join(directory, "postgres.log"), "utf8"), /plenty/)
    })
  )

  // Only root can set this up.
  const asRootOnly = asRoot && process.platform === "linux" ? it.scopedLive : () => {}
  asRootOnly("works as root where no other user may enter", () =>
    Effect.gen(function* () {
      const parent = yield* scratch
      yield* Effect.promise(() => chmod(parent, 0o700))
      const directory = join(parent, ".nightshift")
      yield* Effect.scoped(start(directory))
      const { url } = yield* start(directory)
      assert.deepStrictEqual(yield* query(Redacted.value(url), "select 1 as one"), [{ one: 1 }])
    })
  )
})
