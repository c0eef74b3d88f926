import { type Effect, identity } from "effect"
import { withPrinted } from "./Terminal.js"

// The command line's own script for bash loses its way below the first subcommand: it has come to `nightshift__jobs` and looks
// for `nightshift,jobs,list`, and it writes a name's dash as it writes a step down.

const step = /^( +[\w-]+)((?:,[\w-]+)+),([\w-]+)\)$/gm
const named = /^( +[\w-]+),([\w-]+)\)$/gm

/** The script, with every step where the script itself will be. */
export const mended = (script: string): string =>
  script
    .replace(step, (_, root: string, way: string, last: string) => `${root}${way.replaceAll(",", "__")},${last})`)
    .replace(named, (_, way: string, last: string) => `${way},${last.replaceAll("__", "-")})`)

/** Mends what is printed where somebody asks for that script. */
export const mending = (
  argv: ReadonlyArray<string>
): (<A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>) =>
  argv.some((word) => word === "--completions" || word.startsWith("--completions=")) ? withPrinted(mended) : identity
