import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as AdminToken from "../../src/http/access/AdminToken.js"
import * as Nightshift from "../support/Nightshift.js"

describe("the token of an embedded service", () => {
  it.scopedLive("is created once, readable only by its owner", () =>
    Effect.gen(function* () {
      const directory = yield* Nightshift.folder
      const made = yield* AdminToken.readOrMake(directory)
      const file = join(directory, "admin-token")
      expect(Redacted.value(made)).toMatch(/^[\w-]{32}$/)
      expect(readFileSync(file, "utf8")).toBe(`${Redacted.value(made)}\n`)
      expect(statSync(file).mode & 0o777).toBe(0o600)
      chmodSync(file, 0o644)
      expect(Redacted.value(yield* AdminToken.readOrMake(directory))).toBe(Redacted.value(made))
      expect(statSync(file).mode & 0o777).toBe(0o600)
    })
  )

  it.scopedLive("is different in every directory, and recreated when its file is empty", () =>
    Effect.gen(function* () {
      const [first, second] = [yield* Nightshift.folder, yield* Nightshift.folder]
      writeFileSync(join(second, "admin-token"), "\n")
      const tokens = [yield* AdminToken.readOrMake(first), yield* AdminToken.readOrMake(second)].map(Redacted.value)
      expect(new Set(tokens).size).toBe(2)
      expect(tokens[1]).toMatch(/^[\w-]{32}$/)
    })
  )

  it.scopedLive("reports in one sentence that a directory cannot hold it", () =>
    Effect.gen(function* () {
      const directory = yield* Nightshift.folder
      const missing = yield* Effect.flip(AdminToken.readOrMake(join(directory, "nowhere")))
      expect(missing.message).toContain("nowhere")
      mkdirSync(join(directory, "admin-token"))
      expect((yield* Effect.flip(AdminToken.readOrMake(directory)))._tag).toBe("DirectoryUnusable")
    })
  )
})
