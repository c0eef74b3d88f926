import { execFile } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const exec = promisify(execFile)

const run = (cwd: string, file: string, args: ReadonlyArray<string>, env: Record<string, string> = {}) =>
  Effect.promise(async () => (await exec(file, args, { cwd, env: { ...process.env, ...env } })).stdout)

describe("the packed package", () => {
  it.scopedLive(
    "installs into an empty folder, and its command and its faces work there",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const packed = yield* run(Nightshift.root, "npm", [
          "pack",
          "--ignore-scripts",
          "--json",
          "--pack-destination",
          cwd
        ])
        const [{ filename }] = JSON.parse(packed)
        writeFileSync(join(cwd, "package.json"), '{ "name": "reader", "type": "module", "private": true }')
        yield* run(cwd, "npm", [
          "install",
          "--prefer-offline",
          "--ignore-scripts",
          "--omit=optional",
          "--no-audit",
          filename
        ])
        const url = Redacted.value(yield* TestDatabase.empty)
        const migrated = yield* run(cwd, "npx", ["nightshift", "migrate"], { DATABASE_URL: url })
        expect(migrated).toMatch(/^Applied 0001_job/)
        writeFileSync(
          join(cwd, "reader.js"),
          'import { Metrics } from "nightshift"\nimport * as testing from "nightshift/testing"\nconsole.log(Metrics.key, typeof testing)\n'
        )
        expect(yield* run(cwd, process.execPath, ["reader.js"])).toBe("nightshift/telemetry/Metrics object\n")
      }),
    240_000
  )
})
