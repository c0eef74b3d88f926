import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { transform } from "esbuild"
import * as Nightshift from "../support/Nightshift.js"
import * as PackedPackage from "../support/PackedPackage.js"
import * as TestDatabase from "../support/TestDatabase.js"

describe("the packed package", () => {
  it.scopedLive(
    "runs the README's program and command with only its own files and declared dependencies",
    () =>
      Effect.gen(function* () {
        const cwd = yield* PackedPackage.unpacked
        const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
        const readme = readFileSync(join(Nightshift.root, "README.md"), "utf8")
        const program = /^```ts\n(import \{ Effect[\s\S]*?)^```$/m.exec(readme)?.[1] ?? ""
        writeFileSync(join(cwd, "program.js"), (yield* Effect.promise(() => transform(program, { loader: "ts" }))).code)
        expect(yield* PackedPackage.run(cwd, process.execPath, ["program.js"], env)).toContain(
          "sending receipt A-17 to ada@example.org"
        )
        expect(yield* PackedPackage.run(cwd, "node_modules/nightshift/dist/nightshift.js", ["migrate"], env)).toContain(
          "The schema is up to date."
        )
      }),
    240_000
  )
})
