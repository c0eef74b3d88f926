import { spawn } from "node:child_process"
import { once } from "node:events"
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { satisfies } from "../../src/guard.js"
import * as Nightshift from "../support/Nightshift.js"

const manifest = JSON.parse(readFileSync(join(Nightshift.root, "package.json"), "utf8"))
const { effect: range, ...others }: Readonly<Record<string, string>> = manifest.effectPackages

const write = (folder: string, file: string, text: string) => {
  mkdirSync(join(folder, file, ".."), { recursive: true })
  writeFileSync(join(folder, file), text)
}

/** A package with a version and no code: loading it fails, as with a version that Nightshift cannot use. */
const withoutCode = (name: string, version: string) =>
  JSON.stringify({ name, version, exports: { "./package.json": "./package.json", ".": "./dist/index.js" } })

/** A project with Nightshift installed, and copies of effect at these paths. */
const project = (effects: Readonly<Record<string, string>>, files: Readonly<Record<string, string>> = {}) =>
  Effect.tap(Nightshift.folder, (cwd) => {
    cpSync(join(Nightshift.root, "dist"), join(cwd, "node_modules/nightshift/dist"), {
      recursive: true,
      filter: (file) => !/dist.(types|ui)/.test(file)
    })
    for (const name of ["package.json", "migrations"]) {
      cpSync(join(Nightshift.root, name), join(cwd, "node_modules/nightshift", name), { recursive: true })
    }
    for (const [place, version] of Object.entries(effects)) {
      write(cwd, join(place, "node_modules/effect/package.json"), withoutCode("effect", version))
    }
    for (const [name, version] of Object.entries(effects["."] === undefined ? {} : others)) {
      write(cwd, join("node_modules", name, "package.json"), withoutCode(name, version.slice(1)))
    }
    write(cwd, "package.json", '{ "name": "shop", "type": "module", "dependencies": { "nightshift": "*" } }')
    write(cwd, "app/app.js", 'import { Handler } from "nightshift"\nexport const handlers = []\n')
    for (const [name, text] of Object.entries(files)) write(cwd, name, text)
  })

const node = (cwd: string, ...args: ReadonlyArray<string>) =>
  Effect.promise(async () => {
    const child = spawn(process.execPath, args, { cwd, env: { PATH: process.env.PATH } })
    let stderr = ""
    child.stderr.on("data", (chunk) => {
      stderr += chunk
    })
    const [code] = await once(child, "close")
    return { code, stderr }
  })

const command = "node_modules/nightshift/dist/nightshift.js"
const serve = (cwd: string) => node(cwd, command, "serve", "--app", "./app/app.js")
const shortOf = (version: string) => version.slice(1).split(".").slice(0, 2).join(".")

/** What to type. Only `nightshift/workflow` needs `@effect/workflow`. */
const packages = (entry: string) =>
  [["effect", range ?? ""] as const, ...Object.entries(others)]
    .filter(([name]) => entry === "nightshift/workflow" || name !== "@effect/workflow")
    .map(([name, version]) => `${name}@${shortOf(version)}`)
    .join(" ")

const needs = (entry: string) => `"${entry}" of Nightshift ${manifest.version} needs effect ${range}`
const client = '"nightshift/client" needs none of it.'

describe("the version of effect", () => {
  it.scopedLive("that is missing is named with what to type, also if the app imports effect itself", () =>
    Effect.gen(function* () {
      const sentence = `${needs("nightshift")}, which is not installed: run \`npm install ${packages("nightshift")}\`. ${client}`
      for (const first of ['import "effect"', 'import "nightshift"', "setInterval(() => {}, 1_000)"]) {
        const cwd = yield* project({}, { "app/app.js": `${first}\nawait import("nightshift")\nawait import("effect")` })
        expect(yield* serve(cwd)).toEqual({ code: 1, stderr: `nightshift: ${sentence}\n` })
      }
    })
  )

  for (const version of ["4.1.0", "3.18.4"]) {
    it.scopedLive(`${version} stops serve --app and programs with a one-sentence error`, () =>
      Effect.gen(function* () {
        const cwd = yield* project({ ".": version })
        const sentence = (entry: string) =>
          `${needs(entry)}, but effect ${version} is installed in node_modules/effect: run \`npm install ${packages(entry)}\`. ${client}`
        expect(yield* serve(cwd)).toEqual({ code: 1, stderr: `nightshift: ${sentence("nightshift")}\n` })
        for (const entry of ["nightshift", "nightshift/workflow", "nightshift/effect/testing"]) {
          for (const load of [`import * as all from "${entry}"`, `require("${entry}")`]) {
            const type = load.startsWith("import") ? "module" : "commonjs"
            const { code, stderr } = yield* node(cwd, `--input-type=${type}`, "-e", load)
            expect(code).toBe(1)
            expect(stderr).toContain(`WrongEffectVersion: ${sentence(entry)}`)
            expect(stderr).not.toMatch(/^ +at /m)
          }
        }
      })
    )

    it.scopedLive(`${version} does not matter to nightshift/client and nightshift/testing`, () =>
      Effect.gen(function* () {
        const cwd = yield* project({ ".": version })
        const program = "if (typeof (client.connect && testing.testShift) !== 'function') process.exit(1)"
        const loads = {
          module: "import * as client from 'nightshift/client'; import * as testing from 'nightshift/testing';",
          commonjs: "const client = require('nightshift/client'), testing = require('nightshift/testing');"
        }
        for (const [type, load] of Object.entries(loads)) {
          const found = yield* node(cwd, `--input-type=${type}`, "--no-warnings", "-e", `${load}${program}`)
          expect(found).toEqual({ code: 0, stderr: "" })
        }
      })
    )
  }

  it.scopedLive("a missing effect is reported with the command that adds it for the project's package manager", () =>
    Effect.gen(function* () {
      const cwd = yield* project({}, { "pnpm-lock.yaml": "" })
      const { stderr } = yield* serve(cwd)
      expect(stderr).toBe(
        `nightshift: ${needs("nightshift")}, which is not installed: run \`pnpm add --allow-build=msgpackr-extract ${packages("nightshift")}\`. ${client}\n`
      )
    })
  )

  it.scopedLive("a second copy of another version beside the program is refused by serve --app and by programs", () =>
    Effect.gen(function* () {
      const cwd = yield* project({ ".": "3.22.4", app: "3.21.0" })
      const sentence = `"nightshift" of Nightshift ${manifest.version} uses effect 3.22.4 in node_modules/effect, but your program uses effect 3.21.0 in app/node_modules/effect, and both must use one copy: run \`npm install ${packages("nightshift")}\`.`
      expect(yield* serve(cwd)).toEqual({ code: 1, stderr: `nightshift: ${sentence}\n` })
      expect((yield* node(cwd, "app/app.js")).stderr).toContain(sentence)
    })
  )

  it.scopedLive("does not matter to commands that load no user module", () =>
    Effect.gen(function* () {
      const cwd = yield* project({ ".": "4.1.0" })
      expect(yield* node(cwd, command, "jobs", "--help")).toEqual({ code: 0, stderr: "" })
    })
  )

  it.scopedLive("of another package of Effect is checked as well", () =>
    Effect.gen(function* () {
      const old = { "node_modules/@effect/sql/package.json": withoutCode("@effect/sql", "0.40.0") }
      const cwd = yield* project({ ".": "3.22.4" }, old)
      const { stderr } = yield* serve(cwd)
      expect(stderr).toContain("but @effect/sql 0.40.0 is installed in node_modules/@effect/sql: run")
    })
  )

  it("is accepted from the lowest supported version up to the next major version", () => {
    const accepted = ["3.22.2", "3.22.10", "3.23.0", "3.100.1"]
    const refused = ["3.22.1", "3.21.9", "3.18.4", "4.0.0", "4.0.0-rc.118", "2.9.9"]
    expect(accepted.filter((version) => satisfies(version, range ?? ""))).toEqual(accepted)
    expect(refused.filter((version) => satisfies(version, range ?? ""))).toEqual([])
    expect(["0.52.1", "0.52.9"].every((version) => satisfies(version, "^0.52.1"))).toBe(true)
    expect(["0.52.0", "0.53.0", "1.0.0"].some((version) => satisfies(version, "^0.52.1"))).toBe(false)
  })
})
