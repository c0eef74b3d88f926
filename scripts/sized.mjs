// Runs a long test as a command: its options become the variables that set its sizes.
import { spawn } from "node:child_process"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"

/**
 * Runs the test file with the sizes of the command line and exits with its code. `sizes` maps each option to its variable,
 * its default and its meaning; all are whole numbers of at least 1.
 */
export const runSized = ({ about, command, env = {}, file, more, sizes }) => {
  const usage = (message) => {
    console.error(message)
    process.exit(2)
  }
  const read = () => {
    const strings = Object.entries(sizes).map(([name, { usual }]) => [name, { type: "string", default: String(usual) }])
    const options = { ...Object.fromEntries(strings), help: { type: "boolean", default: false } }
    try {
      return parseArgs({ options }).values
    } catch (error) {
      return usage(`${error.message}. Run: ${command} -- --help`)
    }
  }
  const values = read()
  if (values.help) {
    const lines = Object.entries(sizes).map(
      ([name, { meaning, usual }]) => `  ${`--${name} N`.padEnd(12)} ${meaning} [${usual}]`
    )
    console.log(`${command} [-- options]: ${about}\n\n${lines.join("\n")}\n  --help       this text\n\n${more}`)
    process.exit(0)
  }
  const variables = Object.entries(sizes).map(([name, { variable }]) => {
    const value = Number(values[name])
    if (!Number.isSafeInteger(value) || value < 1) {
      usage(`--${name} must be a whole number of at least 1, got ${values[name]}.`)
    }
    return [variable, values[name]]
  })
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs")
  const child = spawn(process.execPath, [vitest, "run", file, "--disableConsoleIntercept", "--silent=false"], {
    cwd: root,
    stdio: "inherit",
    // Its own process group: a signal must reach the pods too, which would otherwise go on without it.
    detached: true,
    env: { ...env, ...process.env, TEST_SIZE: "long", ...Object.fromEntries(variables) }
  })
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.kill(-child.pid, signal))
  child.on("close", (code) => process.exit(code ?? 1))
}
