import { register } from "node:module"
import { extname } from "node:path"
import { pathToFileURL } from "node:url"

// Imports the module of `--app`. The launcher does so before it decides which build of the command line runs the module's handlers;
// that build has its own copy of this file and gets the same module. Imports only Node's own modules.

const typescriptExtensions = [".ts", ".mts", ".tsx"]

/** TypeScript cannot be loaded, because its compiler is not installed. */
export class CompilerMissing extends Error {
  override readonly name = "CompilerMissing"
}

/** Registers the TypeScript loader and source maps for all later imports in this process. */
const allowTypeScript = (hooks: string) => {
  process.setSourceMapsEnabled(true)
  try {
    register(pathToFileURL(hooks).href)
  } catch (cause) {
    throw new CompilerMissing("the TypeScript compiler is not installed", { cause })
  }
}

const imported = async (path: string, hooks: string): Promise<unknown> => {
  if (typescriptExtensions.includes(extname(path))) allowTypeScript(hooks)
  return import(pathToFileURL(path).href)
}

type Modules = Map<string, Promise<unknown>>

const key = Symbol.for("nightshift/cli/modules")

/** The modules that this process has imported, for all copies of this file. */
const modules = (): Modules => {
  const shared = globalThis as { [key]?: Modules }
  shared[key] ??= new Map()
  return shared[key]
}

/** Imports a module once. `hooks` is the path of the built TypeScript loader. */
export const load = (path: string, hooks: string): Promise<unknown> => {
  const loading = modules().get(path) ?? imported(path, hooks)
  modules().set(path, loading)
  return loading
}

type Exports = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is Exports => typeof value === "object" && value !== null

/** What a module exports: one default object, or names. */
export const exportsOf = (loaded: unknown): unknown =>
  isRecord(loaded) && isRecord(loaded.default) && !Array.isArray(loaded.default) ? loaded.default : loaded

/** Whether a module has a layer, or handlers that `nightshift/client` did not make: they run only in the program's Effect. */
export const usesEffect = (loaded: unknown): boolean => {
  const exported = exportsOf(loaded)
  if (!isRecord(exported)) return false
  const handlers: ReadonlyArray<unknown> = Array.isArray(exported.handlers) ? exported.handlers : []
  const isEffect = (handler: unknown) => isRecord(handler) && "run" in handler
  return exported.layer !== undefined || handlers.some(isEffect)
}
