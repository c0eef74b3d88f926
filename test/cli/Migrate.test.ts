import { readdirSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const migrations = readdirSync("migrations")
  .filter((file) => file.endsWith(".sql"))
  .map((file) => file.slice(0, -".sql".length))

const onEmptyDatabase = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  const url = Redacted.value(yield* TestDatabase.empty)
  return (args: ReadonlyArray<string>, env: Record<string, string> = {}) =>
    Nightshift.call(["migrate", ...args], { cwd, env: { DATABASE_URL: url, ...env } })
})

describe("nightshift migrate", () => {
  it.scopedLive("prints the pending migrations with --dry-run without applying them, then applies them once", () =>
    Effect.gen(function* () {
      const migrate = yield* onEmptyDatabase
      for (let time = 0; time < 2; time += 1) {
        const preview = yield* migrate(["--dry-run"])
        expect(preview).toMatchObject({ code: 0, stderr: "" })
        expect(preview.stdout).toMatch(
          /^-- \d+ migrations? pending\. Nothing was applied\.\n[\s\S]*\n-- 0001_baseline\n[\s\S]*create table job \(/
        )
        expect(preview.stdout).toContain("-- Locks no existing table.\n")
        expect(preview.stdout.split("\n").filter((line) => /^-- \d{4}_/.test(line))).toEqual(
          migrations.map((name) => `-- ${name}`)
        )
      }
      expect(yield* migrate([])).toMatchObject({ code: 0, stdout: `Applied ${migrations.join(", ")}.\n` })
      expect((yield* migrate(["--dry-run"])).stdout).toBe(
        `The schema is up to date (${migrations.length} ${migrations.length === 1 ? "migration" : "migrations"} applied).\n`
      )
    })
  )

  it.scopedLive("prints the plan as JSON with --dry-run --json", () =>
    Effect.gen(function* () {
      const migrate = yield* onEmptyDatabase
      const { applied, pending } = JSON.parse((yield* migrate(["--dry-run", "--json"])).stdout)
      expect(applied).toBe(0)
      expect(pending.map(({ name }: { name: string }) => name)).toEqual(migrations)
      expect(pending[0]).toMatchObject({
        oldestCode: "0.1.0",
        seconds: 0,
        sql: expect.stringContaining("create table job (")
      })
      expect(pending[0].statements[0]).toEqual({ sql: expect.stringMatching(/^create table job/), locks: [], work: [] })
    })
  )

  it.scopedLive("writes its log to standard error as one JSON object per line, at the requested level", () =>
    Effect.gen(function* () {
      const migrate = yield* onEmptyDatabase
      const { stderr } = yield* migrate([])
      const lines = stderr.trim().split("\n")
      expect(lines.map((line) => JSON.parse(line).msg)).toEqual(migrations.map((name) => `applied migration ${name}`))
      const quiet = yield* onEmptyDatabase
      expect(yield* quiet([], { LOG_LEVEL: "warning" })).toMatchObject({ code: 0, stderr: "" })
      const pretty = yield* onEmptyDatabase
      expect((yield* pretty([], { LOG_FORMAT: "pretty" })).stderr).toMatch(/INFO.*applied migration 0001_baseline/)
    })
  )
})
