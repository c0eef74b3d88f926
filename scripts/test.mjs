// `npm test`: the tests, and the checks of `npm run check` beside them. Arguments are those of `vitest run`.
import { spawn } from "node:child_process"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs")

const exitCode = (child) => new Promise((done) => child.on("close", (code) => done(code ?? 1)))

// The checks use the processor while tests wait.
const check = spawn(process.execPath, ["scripts/check.mjs"], { cwd: root, stdio: ["ignore", "ignore", "pipe"] })
let problems = ""
check.stderr.on("data", (chunk) => (problems += chunk))
const checked = exitCode(check)

const tests = spawn(process.execPath, [vitest, "run", ...process.argv.slice(2)], { cwd: root, stdio: "inherit" })
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    check.kill(signal)
    tests.kill(signal)
  })
}

const tested = await exitCode(tests)
if ((await checked) !== 0) process.stderr.write(`${problems}npm run check failed.\n`)
process.exit(tested !== 0 ? tested : await checked)
