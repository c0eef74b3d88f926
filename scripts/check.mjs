// Format, lint, types, floors, banned words: `npm run check`. Prints what the steps that fail have to say.
// `--before-tests` builds what is stale and makes sure that there is a browser instead.
import { spawn } from "node:child_process"
import { createRequire } from "node:module"
import { availableParallelism } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { resolve } = createRequire(import.meta.url)
const tsc = join(dirname(resolve("typescript/package.json")), "bin", "tsc")
const biome = join(dirname(resolve("@biomejs/biome/package.json")), "bin", "biome")

// One checker of types takes half of the work of several, which each check what their files share. The steps run beside each
// other instead, the longest first.
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
