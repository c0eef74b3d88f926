#!/usr/bin/env node
import { readFileSync } from "node:fs"
import * as module from "node:module"
import { dirname, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import * as AppModule from "./cli/AppModule.js"
import * as CodeCache from "./cli/CodeCache.js"
import * as Guard from "./guard.js"

// The bundled CLI has its own copy of Effect and starts fast. It also runs handlers that `nightshift/client` made, because they
// carry what it needs to make its own (see client/Recipe). Handlers and layers of Effect run in the library build of the CLI,
// which shares the program's Effect.

const file = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

/** Returns the value of `--app`, or an empty string if the value is missing. */
const appOf = (argv: ReadonlyArray<string>): string | undefined => {
  const place = argv.findIndex((argument) => argument === "--app" || argument.startsWith("--app="))
  if (place === -1) return undefined
  return argv[place]?.startsWith("--app=") ? argv[place].slice("--app=".length) : (argv[place + 1] ?? "")
}

const bundled = (): void => CodeCache.run(file("./cli.cjs"))

/** Ends the process: code of the module that ran before may keep it alive. */
const refuse = (reason: string): void => {
  process.stderr.write(`nightshift: ${reason}\n`, () => process.exit(1))
}

/** Whether the module could not be loaded because it imports a package of Effect that is not installed. */
const lacksEffect = (error: unknown): boolean =>
  error instanceof Error && /^Cannot find package '(effect|@effect\/[^']+)'/.test(error.message)

/** Runs the library build of the CLI, unless the program's copy of Effect is missing or incompatible. */
const library = async (folder: string): Promise<void> => {
  const reason = Guard.refusal("index", folder)
  if (reason !== undefined) return refuse(reason)
  // Node 22 and later cache compiled code between starts, by default in a folder under /tmp that others may prepare.
  if ("enableCompileCache" in module && typeof module.enableCompileCache === "function")
    module.enableCompileCache(file("./compile-cache"))
  await import(new URL("./main.js", import.meta.url).href)
}

const app = appOf(process.argv)
if (app !== undefined && !process.argv.includes("--help")) {
  const path = resolve(app)
  Guard.programIn(dirname(path))
  // Other errors are left to the command line, which imports the module again.
  const loaded = await AppModule.load(path, file("./typescript.js")).catch((error: unknown) => error)
  const missing = lacksEffect(loaded) ? Guard.refusal("index", dirname(path)) : undefined
  if (missing !== undefined) refuse(missing)
  else if (Guard.isRefusal(loaded)) refuse(loaded.message)
  else await (AppModule.usesEffect(loaded) ? library(dirname(path)) : bundled())
} else if (process.argv.length === 3 && process.argv[2] === "--version") {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
  process.stdout.write(`${version}\n`)
} else bundled()
