import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nightshift from "../support/Nightshift.js"

describe("a command whose database does not answer", () => {
  it.scopedLive("times out after three seconds, with one line", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: "postgres://someone:hunter2@127.0.0.1:1/none" }
      const { code, stderr, stdout } = yield* Nightshift.call(["jobs", "list"], { cwd, env })
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" })
      expect(stderr).toMatch(/^nightshift: Could not reach PostgreSQL at 127\.0\.0\.1:1\/none within 3s \([^\n]+\n$/)
    })
  )

  it.scopedLive("waits for DATABASE_BOOT_TIMEOUT", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: "postgres://someone@127.0.0.1:1/none", DATABASE_BOOT_TIMEOUT: "200ms" }
      const { stderr } = yield* Nightshift.call(["jobs", "list"], { cwd, env })
      expect(stderr).toMatch(/^nightshift: Could not reach PostgreSQL at [^\n]+ within 200ms \([^\n]+\n$/)
    })
  )
})
