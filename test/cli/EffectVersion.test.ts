import { spawn } from "node:child_process"
import { once } from "node:events"
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { satisfies } from "../../src/guard.js"
import * as Nightshift from "../support/Nightshift.js"

const manifest = JSON.parse(readFileSync(join(Nightshift.root, "package.json"), "utf8"))
const range: string = manifest.peerDependencies.effect

const write = (folder: string, file: string, text: string) => {
  mkdirSync(join(folder, file, ".."), { recursive: true })
  writeFileSync(join(folder, file), text)
}

/** A package with a version and no code: loading it fails, as with a version that Nightshift cannot use. */
const effectPackage = (version: string) =>
  JSON.stringify({ name: "effect", version, exports: { "./package.json": "./package.json", ".": "./dist/index.js" } })

/** A project with Nightshift installed, and copies of effect at these paths. */
const project = (effects: Readonly<Record<string, string>>, files: Readonly<Record<string, string>> = {}) =>
  Effect.tap(Nightshift.folder, (cwd) => {
    cpSync(join(Nightshift.root, "dist"), join(cwd, "node_modules/nightshift/dist"), {
      recursive: true,
      filter: (file) => !/\.map$|dist.(types|ui)/.test(file)
    })
    cpSync(join(Nightshift.root, "package.json"), join(cwd, "node_modules/nightshift/package.json"))
    for (const [place, version] of Object.entries(effects)) {
      write(cwd, join(place, "node_modules/effect/package.json"), effectPackage(version))
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
const nightshift = `Nightshift ${manifest.version}`

describe("the version of effect", () => {
  for (const version of ["4.1.0", "3.18.4"]) {
    it.scopedLive(`${version} stops serve --app and programs with a one-sentence error`, () =>
      Effect.gen(function* () {
        const cwd = yield* project({ ".": version })
        const sentence = `${nightshift} needs effect ${range}, but effect ${version} is installed in node_modules/effect: run \`npm install effect@3\`.`
        expect(yield* serve(cwd)).toEqual({ code: 1, stderr: `nightshift: ${sentence}\n` })
        for (const face of ["nightshift", "nightshift/testing"]) {
          for (const load of [`import * as all from "${face}"`, `require("${face}")`]) {
            const type = load.startsWith("import") ? "module" : "commonjs"
            const { code, stderr } = yield* node(cwd, `--input-type=${type}`, "-e", load)
            expect(code).toBe(1)
            expect(stderr).toContain(`WrongEffectVersion: ${sentence}`)
            expect(stderr).not.toMatch(/^ +at /m)
          }
        }
      })
    )
  }

  it.scopedLive("a missing effect is reported with the command that adds it for the project's package manager", () =>
    Effect.gen(function* () {
      const cwd = yield* project({}, { "pnpm-lock.yaml": "" })
      const { stderr } = yield* serve(cwd)
      expect(stderr).toBe(
        `nightshift: ${nightshift} needs effect ${range}, which is not installed: run \`pnpm add effect@3\`.\n`
      )
    })
  )

  it.scopedLive("a second copy of another version beside the program is refused by serve --app and by programs", () =>
    Effect.gen(function* () {
      const cwd = yield* project({ ".": "3.22.4", app: "3.21.0" })
      const sentence = `${nightshift} uses effect 3.22.4 in node_modules/effect, but your program uses effect 3.21.0 in app/node_modules/effect, and both must use one copy: run \`npm install effect@3\`.`
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

  it("is accepted from the lowest supported version up to the next major version", () => {
    const accepted = ["3.22.2", "3.22.10", "3.23.0", "3.100.1"]
    const refused = ["3.22.1", "3.21.9", "3.18.4", "4.0.0", "4.0.0-rc.118", "2.9.9"]
    expect(accepted.filter((version) => satisfies(version, range))).toEqual(accepted)
    expect(refused.filter((version) => satisfies(version, range))).toEqual([])
  })
})
