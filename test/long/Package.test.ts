import { readFileSync, symlinkSync, writeFileSync } from "node:fs"
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

  it.scopedLive(
    "has types that compile without skipLibCheck, for bundlers and for Node",
    () =>
      Effect.gen(function* () {
        const cwd = yield* PackedPackage.unpacked
        const installed = join(Nightshift.root, "node_modules")
        symlinkSync(join(installed, "@types"), join(cwd, "node_modules/@types"))
        const entries = Object.keys(JSON.parse(readFileSync(join(Nightshift.root, "package.json"), "utf8")).exports)
          .filter((entry) => !entry.endsWith(".json"))
          .map((entry) => `nightshift${entry.slice(1)}`)
        const uses = entries.map((entry, at) => `import * as entry${at} from "${entry}"\nconsole.log(entry${at})\n`)
        // An entry without types would be any, and have this name.
        const proofs = entries.map((_, at) => `// @ts-expect-error\nentry${at}.nothing\n`)
        writeFileSync(join(cwd, "program.ts"), [...uses, ...proofs].join(""))
        const tsc = join(installed, "typescript/bin/tsc")
        const flags = ["--noEmit", "--strict", "--target", "es2022", "--types", "node", "program.ts"]
        for (const [module, resolution] of [
          ["esnext", "bundler"],
          ["node16", "node16"]
        ] as const) {
          const modules = ["--module", module, "--moduleResolution", resolution]
          expect(yield* PackedPackage.run(cwd, process.execPath, [tsc, ...modules, ...flags])).toBe("")
        }
      }),
    240_000
  )
})
