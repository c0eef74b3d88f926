import { existsSync, readFileSync, realpathSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join, relative, sep } from "node:path"
import { fileURLToPath } from "node:url"

// Nightshift and the user's program must share one copy of effect. This module runs before anything that imports effect,
// because a wrong version fails while modules are still being linked, with an error that names a missing file.
// It therefore imports nothing but Node's own modules.

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

/** The copy of effect that a module in this folder imports. */
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

/** Whether a version lies in a caret range of a major version above 0. */
export const satisfies = (version: string, range: string): boolean => {
  const [major = 0, minor = 0, patch = 0] = numbers(version)
  const [leastMajor = 0, leastMinor = 0, leastPatch = 0] = numbers(range)
  if (major !== leastMajor) return false
  return minor > leastMinor || (minor === leastMinor && patch >= leastPatch)
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
 * The folder of the program that imports this library. The main script tells, unless it is a tool such as a test runner; then
 * the working directory does, if its package.json lists nightshift.
 */
const programFolder = (): string | undefined => {
  const script = process.argv[1]
  if (script !== undefined && !insideNodeModules(script)) return dirname(script)
  const manifest = join(process.cwd(), "package.json")
  if (!existsSync(manifest)) return undefined
  const { dependencies, devDependencies } = JSON.parse(readFileSync(manifest, "utf8"))
  return { ...dependencies, ...devDependencies }.nightshift === undefined ? undefined : process.cwd()
}

/** Why this process must not load effect, in one sentence; undefined when it may. */
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
  // Two copies of the same version share their global state and work together.
  const theirs = userFolder === undefined ? undefined : effectFrom(userFolder)
  if (theirs === undefined || theirs.version === ours.version) return undefined
  return `Nightshift ${version} uses effect ${ours.version} in ${shown(ours)}, but your program uses effect ${theirs.version} in ${shown(theirs)}, and both must use one copy: ${install}.`
}

/** Throws the refusal, for programs that import the library. */
export const check = (): void => {
  const reason = refusal(programFolder())
  if (reason === undefined) return
  const error = new Error(reason)
  error.name = "WrongEffectVersion"
  // The frames would all be of this module, and the sentence says everything.
  error.stack = `${error.name}: ${reason}`
  throw error
}
