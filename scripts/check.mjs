// `npm run check`: format, lint, types, floors and banned words. Prints the output of failed steps. `--before-tests`
// instead builds dist/ if it is stale and prepares a browser.
import { spawn } from "node:child_process"
import { createRequire } from "node:module"
import { availableParallelism } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { resolve } = createRequire(import.meta.url)
const tsc = join(dirname(resolve("typescript/package.json")), "bin", "tsc")
const biome = join(dirname(resolve("@biomejs/biome/package.json")), "bin", "biome")

// A single-threaded type check does half of the work of a parallel one, whose threads repeat shared files. The steps run
// concurrently instead, the longest first.
const forTests = [["scripts/build.mjs", "--if-stale"], ["scripts/prepare-browser.mjs"]]
const checks = [
  [tsc, "--noEmit", "--singleThreaded"],
  [biome, "check", "--error-on-warnings", "."],
  [tsc, "--noEmit", "--singleThreaded", "-p", "src/dashboard/app"],
  ["scripts/check-floors.mjs"],
  ["scripts/check-banned.mjs"]
]
const steps = process.argv.includes("--before-tests") ? forTests : checks

const run = (args) =>
  new Promise((done) => {
    const step = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    for (const stream of [step.stdout, step.stderr]) stream.on("data", (chunk) => (output += chunk))
    step.on("close", (code) => {
      if (code !== 0) process.stderr.write(output)
      done(code === 0)
    })
  })

const waiting = [...steps]
const results = []
const lane = async () => {
  for (let step = waiting.shift(); step !== undefined; step = waiting.shift()) results.push(await run(step))
}
await Promise.all(Array.from({ length: Math.min(availableParallelism(), steps.length) }, lane))
process.exit(results.every((ok) => ok) ? 0 : 1)
