import { execFile } from "node:child_process"
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { Effect, type Scope } from "effect"
import * as Nightshift from "./Nightshift.js"

const exec = promisify(execFile)

/** Runs a program to its end and returns what it printed. */
export const run = (cwd: string, file: string, args: ReadonlyArray<string>, env: Record<string, string> = {}) =>
  Effect.promise(async () => {
    try {
      return (await exec(file, args, { cwd, env: { ...process.env, ...env } })).stdout
    } catch (error) {
      // The message has standard error only, and tsc prints its errors to standard output.
      throw new Error(`${error}\n${Object(error).stdout}`)
    }
  })

const manifest = JSON.parse(readFileSync(join(Nightshift.root, "package.json"), "utf8"))

/** What programs with Effect install beside it. */
const effectPackages = Object.keys(manifest.effectPackages)

/** Packs the package into a folder and returns the file name. */
const pack = (cwd: string) =>
  Effect.map(
    run(Nightshift.root, "npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", cwd]),
    (printed): string => JSON.parse(printed)[0].filename
  )

const writeManifest = (cwd: string) =>
  writeFileSync(join(cwd, "package.json"), '{ "name": "reader", "type": "module", "private": true }')

/** A folder into which npm has installed the packed package, without the large PostgreSQL binaries. */
export const installed: Effect.Effect<string, never, Scope.Scope> = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  writeManifest(cwd)
  const flags = ["--prefer-offline", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"]
  yield* run(cwd, "npm", [
    "install",
    ...flags,
    yield* pack(cwd),
    ...effectPackages.map((name) => `${name}@${manifest.devDependencies[name]}`),
    "zod@4"
  ])
  return cwd
})

/** A folder with the packed files and links to the packages of Effect only: a strict layout like pnpm's, without a registry. */
export const unpacked: Effect.Effect<string, never, Scope.Scope> = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  writeManifest(cwd)
  const modules = join(cwd, "node_modules")
  mkdirSync(modules)
  yield* run(cwd, "tar", ["-xzf", yield* pack(cwd)])
  renameSync(join(cwd, "package"), join(modules, "nightshift"))
  const link = (name: string, from: string) => {
    mkdirSync(join(from, name, ".."), { recursive: true })
    symlinkSync(join(Nightshift.root, "node_modules", name), join(from, name))
  }
  for (const name of effectPackages) link(name, modules)
  return cwd
})
