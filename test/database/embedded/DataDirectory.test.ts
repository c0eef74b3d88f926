import { existsSync, statSync } from "node:fs"
import { chown, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, Option } from "effect"
import { clearOldServer, refuseForeign, take } from "../../../src/database/embedded/DataDirectory.js"
import { userOf } from "../../../src/database/embedded/ServerAccount.js"
import { scratch } from "./fixtures/Scratch.js"

/** The result of an effect, and its log lines. */
const logged = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const lines: Array<string> = []
    const log = Logger.replace(
      Logger.defaultLogger,
      Logger.make(({ message }) => void lines.push(String(message)))
    )
    return Effect.map(Effect.provide(effect, log), (value) => ({ value, lines }))
  })

const asRoot = process.getuid?.() === 0

describe("the directory of the embedded PostgreSQL", () => {
  it.scopedLive("is refused to another user than its owner, with both names and what to do", () =>
    Effect.gen(function* () {
      const directory = join(yield* scratch, ".nightshift")
      yield* Effect.promise(() => mkdir(join(directory, "data"), { recursive: true }))
      const { uid } = statSync(directory)
      yield* refuseForeign(directory, uid)
      yield* refuseForeign(directory, 0)
      const { message } = yield* Effect.flip(refuseForeign(directory, 4_000_000))
      assert.strictEqual(
        message,
        `The embedded database cannot use ${directory}: it belongs to ${yield* userOf(uid)}, and this process runs as uid 4000000. Start as the owner, change the owner with chown -R 4000000 ${directory}, or choose another directory.`
      )
    })
  )

  if (asRoot) {
    it.scopedLive("keeps the owner of its data under root, which the log says", () =>
      Effect.gen(function* () {
        const directory = join(yield* scratch, ".nightshift")
        yield* Effect.promise(async () => {
          await mkdir(join(directory, "data"), { recursive: true })
          await chown(join(directory, "data"), 1, 1)
        })
        const { lines, value } = yield* logged(take(directory))
        assert.deepStrictEqual(value.account, Option.some({ uid: 1, gid: 1 }))
        assert.deepStrictEqual(lines, [`PostgreSQL runs as daemon (uid 1), the owner of the data in ${directory}`])
        const { message } = yield* Effect.flip(refuseForeign(directory, 2))
        assert.match(message, /it belongs to root \(uid 0\), and this process runs as bin \(uid 2\)/)
      })
    )
  }

  it.scopedLive("may be a copy: the pid file in it names the server of the original", () =>
    Effect.gen(function* () {
      const parent = yield* scratch
      const [directory, original] = [join(parent, "copy"), join(parent, "original/data")]
      const file = join(directory, "data/postmaster.pid")
      const leave = (pid: number, data: string) =>
        Effect.promise(async () => {
          await mkdir(join(directory, "data"), { recursive: true })
          await writeFile(file, `${pid}\n${data}\n1700000000\n5432\n`)
        })
      yield* leave(process.pid, original)
      const copied = yield* logged(clearOldServer(directory))
      assert.isFalse(existsSync(file))
      assert.strictEqual(copied.lines.length, 1)
      assert.include(
        copied.lines[0],
        `${directory}/data was copied or moved from ${original} without a clean stop of its server: PostgreSQL recovers it`
      )
      yield* leave(process.pid, join(directory, "data"))
      const stale = yield* logged(clearOldServer(directory))
      assert.deepStrictEqual(stale.lines, [])
      assert.isFalse(existsSync(file))
    })
  )
})
