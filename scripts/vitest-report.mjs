// Runs vitest and returns what each test did.
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"

/** Runs vitest in the folder with these arguments. `tests` is empty if it could not run. */
export const runVitest = async (cwd, args, env = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "nightshift-report-"))
  const file = join(folder, "report.json")
  try {
    const child = spawn(
      process.execPath,
      ["node_modules/vitest/vitest.mjs", "run", ...args, "--reporter=json", `--outputFile=${file}`],
      { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] }
    )
    let output = ""
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => (output = (output + chunk).slice(-4_000)))
    const code = await new Promise((done) => child.on("close", done))
    const modules = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).testResults : []
    const tests = modules.flatMap(({ assertionResults, name }) =>
      assertionResults.map(({ failureMessages, fullName, status }) => ({
        file: relative(cwd, name),
        name: fullName.trim(),
        status,
        message: (failureMessages[0] ?? "").split("\n")[0]
      }))
    )
    // A file that could not be loaded, or whose hooks failed, has no failed test.
    const broken = modules
      .filter(
        ({ assertionResults, status }) =>
          status === "failed" && assertionResults.every((each) => each.status !== "failed")
      )
      .map(({ message, name }) => ({ file: relative(cwd, name), message: message.split("\n")[0] }))
    return { code, tests, broken, output }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
