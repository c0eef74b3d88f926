import { existsSync, readFileSync, realpathSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join, relative, sep } from "node:path"
import { fileURLToPath } from "node:url"
import { installCommand } from "./database/InstallCommand.js"

// The entry points for Effect share one copy of effect with the program. This module runs before anything that imports
// effect, because a missing or wrong version fails at link time with an error about a missing file. It therefore imports only
// Node's own modules.

interface Manifest {
  readonly version: string
  /** The packages of Effect and their versions. As peers they may have any version, because others do not use them. */
  readonly effectPackages?: Readonly<Record<string, string>>
}

interface Copy {
  readonly name: string
  readonly version: string
  readonly folder: string
}

/** The entry points that need Effect. */
export type EntryPoint = "index" | "workflow" | "effect-testing"

const names: Readonly<Record<EntryPoint, string>> = {
  index: "nightshift",
  workflow: "nightshift/workflow",
  "effect-testing": "nightshift/effect/testing"
}

const readManifest = (file: string): Manifest => JSON.parse(readFileSync(file, "utf8"))

/** Returns the copy of a package that a module in this folder would import. */
const copyFrom = (folder: string, name: string): Copy | undefined => {
  try {
    const manifest = realpathSync(createRequire(join(folder, "module.js")).resolve(`${name}/package.json`))
    return { name, version: readManifest(manifest).version, folder: dirname(manifest) }
  } catch {
    return undefined
  }
}

const numbers = (version: string): ReadonlyArray<number> =>
  version
    .replace(/^\^/, "")
    .split(/[.-]/, 3)
    .map((part) => Number.parseInt(part, 10))

/** Returns whether a version satisfies a caret range. */
export const satisfies = (version: string, range: string): boolean => {
  const [major = 0, minor = 0, patch = 0] = numbers(version)
  const [minMajor = 0, minMinor = 0, minPatch = 0] = numbers(range)
  if (major !== minMajor || (major === 0 && minor !== minMinor)) return false
  return minor > minMinor || (minor === minMinor && patch >= minPatch)
}

/** A package as it is typed after the install command. Shells give `^` a meaning, so it has none. */
const typed = ([name, range]: readonly [name: string, range: string]): string =>
  `${name}@${numbers(range).slice(0, 2).join(".")}`

const insideNodeModules = (file: string): boolean => file.split(sep).includes("node_modules")

/** Set by the command line: the folder of the module that it loads. */
const program = Symbol.for("nightshift/guard/program")

/** Names the folder of the program, for all copies of this module. */
export const programIn = (folder: string): void => {
  Object.assign(globalThis, { [program]: folder })
}

/**
 * Returns the folder of the program that imports this library: the main script's, or, if that is a tool such as a test
 * runner, the working directory if its package.json lists nightshift.
 */
const programFolder = (): string | undefined => {
  const known = (globalThis as { [program]?: string })[program]
  if (known !== undefined) return known
  const script = process.argv[1]
  if (script !== undefined && !insideNodeModules(script)) return dirname(script)
  const manifest = join(process.cwd(), "package.json")
  if (!existsSync(manifest)) return undefined
  const { dependencies, devDependencies } = JSON.parse(readFileSync(manifest, "utf8"))
  return { ...dependencies, ...devDependencies }.nightshift === undefined ? undefined : process.cwd()
}

const shown = ({ folder }: Copy): string => relative(process.cwd(), folder) || "."

/** Returns why this process must not load an entry point, or undefined if it may. */
export const refusal = (entryPoint: EntryPoint, userFolder: string | undefined): string | undefined => {
  const here = dirname(fileURLToPath(import.meta.url))
  const { effectPackages = {}, version } = readManifest(join(here, "..", "package.json"))
  const needed = Object.entries(effectPackages)
    .filter(([name]) => entryPoint === "workflow" || name !== "@effect/workflow")
    // Of several problems, the one with effect itself is reported.
    .sort(([a], [b]) => Number(b === "effect") - Number(a === "effect"))
  const install = `run \`${installCommand(process.cwd(), "msgpackr-extract")} ${needed.map(typed).join(" ")}\``
  const copies = needed.map(([name, range]) => [name, range, copyFrom(here, name)] as const)
  const bad = copies.find(([, range, copy]) => copy === undefined || !satisfies(copy.version, range))
  const entry = `"${names[entryPoint]}" of Nightshift ${version}`
  if (bad !== undefined) {
    const [name, range, copy] = bad
    const state =
      copy === undefined ? "which is not installed" : `but ${name} ${copy.version} is installed in ${shown(copy)}`
    return `${entry} needs ${name} ${range}, ${state}: ${install}. "nightshift/client" needs none of it.`
  }
  // Two copies of the same version share their global state and are compatible.
  const ours = copies[0]?.[2]
  const theirs = userFolder === undefined ? undefined : copyFrom(userFolder, "effect")
  if (ours === undefined || theirs === undefined || theirs.version === ours.version) return undefined
  return `${entry} uses effect ${ours.version} in ${shown(ours)}, but your program uses effect ${theirs.version} in ${shown(theirs)}, and both must use one copy: ${install}.`
}

const errorName = "WrongEffectVersion"

/** Whether an error says that an entry point cannot be loaded. It may come from another copy of this module. */
export const isRefusal = (error: unknown): error is Error => error instanceof Error && error.name === errorName

/** Throws if the program's copy of effect is missing or incompatible. */
export const check = (entryPoint: EntryPoint): void => {
  const reason = refusal(entryPoint, programFolder())
  if (reason === undefined) return
  const error = new Error(reason)
  error.name = errorName
  // All frames would point to this module, so drop them.
  error.stack = `${error.name}: ${reason}`
  throw error
}
