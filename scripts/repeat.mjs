// npm run test:repeat -- 5 [--changed main] [files] [options of vitest]
//
// Runs tests several times and lists those that did not pass every time. Without files it runs everything, with --changed
// and a commit or branch only the tests that changed since then or import a module that did.
import { fileURLToPath } from "node:url"
import { unstable } from "./unstable.mjs"
import { runVitest } from "./vitest-report.mjs"

const root = fileURLToPath(new URL("..", import.meta.url))
const [given = "5", ...rest] = process.argv.slice(2)
const times = Number(given)
if (!Number.isSafeInteger(times) || times < 1) {
  process.stderr.write(`The first argument must be a whole number of at least 1, got ${given}.\n`)
  process.exit(2)
}

const reports = []
for (let turn = 1; turn <= times; turn += 1) {
  const began = performance.now()
  const report = await runVitest(root, [...rest, "--passWithNoTests"])
  reports.push(report)
  const count = (status) => report.tests.filter((test) => test.status === status).length
  const seconds = ((performance.now() - began) / 1_000).toFixed(0)
  process.stdout.write(`run ${turn} of ${times}: ${count("passed")} passed, ${count("failed")} failed, ${seconds} s\n`)
}

const found = unstable(reports)
for (const { failures, message, name } of found) {
  process.stdout.write(`failed ${failures} of ${times} times: ${name}\n  ${message}\n`)
}
if (found.length === 0) process.stdout.write("Every test passed every time.\n")
else process.exitCode = 1
