import { readdirSync, readFileSync, statSync } from "node:fs"
import { rm, symlink } from "node:fs/promises"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as ServerLog from "../../../src/database/embedded/ServerLog.js"
import { scratch } from "./fixtures/Scratch.js"

const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }

describe("the server's log", () => {
  it.scopedLive("keeps the bounded end of its output", () =>
    Effect.gen(function* () {
      const directory = yield* scratch
      const log = yield* ServerLog.make(directory, join(directory, "postgres.log"), owner)
      for (const n of Array.from({ length: 30 }, (_, n) => n)) log.write(Buffer.alloc(1_000_000, `${n % 10}`))
      log.write(Buffer.from("last words\n"))
      const sizes = readdirSync(directory).map((name) => statSync(join(directory, name)).size)
      assert.strictEqual(sizes.length, 2)
      assert.isBelow(Math.max(...sizes), 6_000_000)
      assert.match(readFileSync(join(directory, "postgres.log"), "utf8").slice(-12), /last words\n/)
    })
  )

  it.scopedLive("does not write through a link, and survives the loss of its directory", () =>
    Effect.gen(function* () {
      const directory = yield* scratch
      yield* Effect.promise(() => symlink("/etc/passwd", join(directory, "linked.log")))
      const refused = yield* Effect.flip(ServerLog.make(directory, join(directory, "linked.log"), owner))
      assert.match(refused.message, /a symbolic link is in the way/)
      const log = yield* ServerLog.make(directory, join(directory, "postgres.log"), owner)
      yield* Effect.promise(() => rm(directory, { recursive: true }))
      for (let n = 0; n < 10; n++) log.write(Buffer.alloc(1_000_000, "x"))
    })
  )
})
