#!/usr/bin/env node
import { dirname, resolve } from "node:path"
import { refusal } from "./guard.js"

// The bundled command line starts three times faster than the package's modules one by one. It carries its own copy of
// Effect, though, so a process that loads the user's module runs the library build, whose Effect is the user's.

/** The module given with `--app`; empty if its value is missing. */
const appOf = (argv: ReadonlyArray<string>): string | undefined => {
  const place = argv.findIndex((argument) => argument === "--app" || argument.startsWith("--app="))
  if (place === -1) return undefined
  return argv[place]?.startsWith("--app=") ? argv[place].slice("--app=".length) : (argv[place + 1] ?? "")
}

const app = appOf(process.argv)
if (app === undefined) await import("./main.js")
else {
  const reason = refusal(dirname(resolve(app)))
  if (reason === undefined) await import(new URL("./main.js", import.meta.url).href)
  else {
    process.stderr.write(`nightshift: ${reason}\n`)
    process.exitCode = 1
  }
}
