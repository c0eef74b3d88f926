import { execFile } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { transform } from "esbuild"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const exec = promisify(execFile)

const run = (cwd: string, file: string, args: ReadonlyArray<string>, env: Record<string, string> = {}) =>
  Effect.promise(async () => (await exec(file, args, { cwd, env: { ...process.env, ...env } })).stdout)

/** A test of a reader's own handler, in a project that has nothing of this repository. */
const readersTest = `
import { Effect, Schema } from "effect"
import { Handler, Job } from "nightshift"
import { TestShift } from "nightshift/testing"

const Flaky = Job.make("flaky", { payload: Schema.Struct({}) })
const AlwaysFails = Handler.make(Flaky, () => Effect.fail("no luck"))

const story = Effect.gen(function* () {
  const shift = yield* TestShift
  const id = yield* Flaky.enqueue({})
  yield* shift.drain
  const { attempt, state } = yield* shift.job(id)
  return state + " after " + attempt + " attempts"
})
Effect.runPromise(Effect.provide(story, TestShift.layer({ handlers: [AlwaysFails] }))).then(console.log)
`

describe("the packed package", () => {
  it.scopedLive(
    "installs into an empty folder: its command works there, so does the README's program, and a test of one's own handler",
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
        const readme = readFileSync(join(Nightshift.root, "README.md"), "utf8")
        const program = /^```ts\n([\s\S]*?)^```$/m.exec(readme)?.[1] ?? ""
        writeFileSync(join(cwd, "program.js"), (yield* Effect.promise(() => transform(program, { loader: "ts" }))).code)
        expect(yield* run(cwd, process.execPath, ["program.js"], { DATABASE_URL: url })).toMatch(
          /a receipt for A-17 goes to ada@example\.org[\s\S]*job [0-9a-f-]{36} is done/
        )
        writeFileSync(join(cwd, "handlers.test.js"), readersTest)
        expect(yield* run(cwd, process.execPath, ["handlers.test.js"])).toBe("dead after 5 attempts\n")
      }),
    240_000
  )
})
