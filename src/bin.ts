#!/usr/bin/env node
import { readFileSync } from "node:fs"
import * as module from "node:module"
import { dirname, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import * as CodeCache from "./cli/CodeCache.js"
import { refusal } from "./guard.js"

// The bundled CLI starts three times faster than the separate modules. It contains its own copy of Effect, so a process
// that loads the user's module runs the library build instead, which shares the user's Effect.

/** Returns the value of `--app`, or an empty string if the value is missing. */
const appOf = (argv: ReadonlyArray<string>): string | undefined => {
  const place = argv.findIndex((argument) => argument === "--app" || argument.startsWith("--app="))
  if (place === -1) return undefined
  return argv[place]?.startsWith("--app=") ? argv[place].slice("--app=".length) : (argv[place + 1] ?? "")
}

/** Runs the library build of the CLI, unless the user's copy of Effect is incompatible. */
const loadBeside = async (app: string): Promise<void> => {
  const reason = refusal(dirname(resolve(app)))
  if (reason !== undefined) {
    process.stderr.write(`nightshift: ${reason}\n`)
    process.exitCode = 1
    return
  }
  // Node 22 and later cache compiled code between starts, by default in a folder under /tmp that others may prepare.
  if ("enableCompileCache" in module && typeof module.enableCompileCache === "function")
    module.enableCompileCache(fileURLToPath(new URL("./compile-cache", import.meta.url)))
  await import(new URL("./main.js", import.meta.url).href)
}

const app = appOf(process.argv)
if (app !== undefined) await loadBeside(app)
else if (process.argv.length === 3 && process.argv[2] === "--version") {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
  process.stdout.write(`${version}\n`)
} else CodeCache.run(fileURLToPath(new URL("./cli.cjs", import.meta.url)))
