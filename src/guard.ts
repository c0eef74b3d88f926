import { existsSync, readFileSync, realpathSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join, relative, sep } from "node:path"
import { fileURLToPath } from "node:url"

// Nightshift and the user's program must share one copy of effect. This module runs before anything that imports
// effect, because a wrong version fails at link time with an error about a missing file. It therefore imports only
// Node's own modules.

interface Manifest {
  readonly version: string
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly dependencies?: Readonly<Record<string, string>>
}

interface Copy {
  readonly version: string
  readonly folder: string
}

const readManifest = (file: string): Manifest => JSON.parse(readFileSync(file, "utf8"))

/** Returns the copy of effect that a module in this folder would import. */
const effectFrom = (folder: string): Copy | undefined => {
  try {
    const manifest = realpathSync(createRequire(join(folder, "module.js")).resolve("effect/package.json"))
    return { version: readManifest(manifest).version, folder: dirname(manifest) }
  } catch {
    return undefined
  }
}

const numbers = (version: string): ReadonlyArray<number> =>
  version
    .replace(/^\^/, "")
    .split(/[.-]/, 3)
    .map((part) => Number.parseInt(part, 10))

/** Returns whether a version satisfies a caret range. Supports only major versions above 0. */
export const satisfies = (version: string, range: string): boolean => {
  const [major = 0, minor = 0, patch = 0] = numbers(version)
  const [minMajor = 0, minMinor = 0, minPatch = 0] = numbers(range)
  if (major !== minMajor) return false
  return minor > minMinor || (minor === minMinor && patch >= minPatch)
}

const lockFiles = {
  "pnpm-lock.yaml": "pnpm add",
  "yarn.lock": "yarn add",
  "bun.lock": "bun add",
  "bun.lockb": "bun add"
} as const

const installCommand = (folder: string): string => {
  for (const [file, command] of Object.entries(lockFiles)) if (existsSync(join(folder, file))) return command
  return dirname(folder) === folder ? "npm install" : installCommand(dirname(folder))
}

const insideNodeModules = (file: string): boolean => file.split(sep).includes("node_modules")

/**
 * Returns the folder of the program that imports this library: the main script's, or, if that is a tool such as a test
 * runner, the working directory if its package.json lists nightshift.
 */
const programFolder = (): string | undefined => {
  const script = process.argv[1]
  if (script !== undefined && !insideNodeModules(script)) return dirname(script)
  const manifest = join(process.cwd(), "package.json")
  if (!existsSync(manifest)) return undefined
  const { dependencies, devDependencies } = JSON.parse(readFileSync(manifest, "utf8"))
  return { ...dependencies, ...devDependencies }.nightshift === undefined ? undefined : process.cwd()
}

/** Returns why this process must not load effect, or undefined if it may. */
export const refusal = (userFolder: string | undefined): string | undefined => {
  const here = dirname(fileURLToPath(import.meta.url))
  const { peerDependencies, version } = readManifest(join(here, "..", "package.json"))
  const range = peerDependencies?.effect ?? "^3"
  const install = `run \`${installCommand(process.cwd())} effect@3\``
  const ours = effectFrom(here)
  if (ours === undefined) return `Nightshift ${version} needs effect ${range}, which is not installed: ${install}.`
  const shown = ({ folder }: Copy) => relative(process.cwd(), folder) || "."
  if (!satisfies(ours.version, range)) {
    return `Nightshift ${version} needs effect ${range}, but effect ${ours.version} is installed in ${shown(ours)}: ${install}.`
  }
  // Two copies of the same version share their global state and are compatible.
  const theirs = userFolder === undefined ? undefined : effectFrom(userFolder)
  if (theirs === undefined || theirs.version === ours.version) return undefined
  return `Nightshift ${version} uses effect ${ours.version} in ${shown(ours)}, but your program uses effect ${theirs.version} in ${shown(theirs)}, and both must use one copy: ${install}.`
}

/** Throws if the program's copy of effect is incompatible. */
export const check = (): void => {
  const reason = refusal(programFolder())
  if (reason === undefined) return
  const error = new Error(reason)
  error.name = "WrongEffectVersion"
  // All frames would point to this module, so drop them.
  error.stack = `${error.name}: ${reason}`
  throw error
}
