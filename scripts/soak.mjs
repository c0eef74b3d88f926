// `npm run soak -- --minutes 120`: a mixed load on real processes that are killed, with a ledger outside the database.
// Runs test/long/Soak.test.ts with these sizes. Exits 1 if a promise was broken or a curve is not flat.
import { spawn } from "node:child_process"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"

const help = `npm run soak [-- options]: runs a mixed load while processes are killed, and checks that nothing is lost or grows

  --minutes M  how long the load lasts; curves are judged from 20 minutes on   [120]
  --rate N     jobs per second, of all kinds together                          [20]
  --seed N     seed of the load and of the faults                              [1]
  --help       this text

TEST_DATABASE_URL   a PostgreSQL to use instead of an own one; its user must be allowed to create databases

Prints a line per sample, then whether each curve is flat, and writes everything to results/. See docs/operate/soak.md.
`

const usage = (message) => {
  console.error(message)
  process.exit(2)
}

const read = () => {
  try {
    const { values } = parseArgs({
      options: {
        minutes: { type: "string", default: "120" },
        rate: { type: "string", default: "20" },
        seed: { type: "string", default: "1" },
        help: { type: "boolean", default: false }
      }
    })
    return values
  } catch (error) {
    return usage(`${error.message}. Run: npm run soak -- --help`)
  }
}

const values = read()
if (values.help) {
  console.log(help)
  process.exit(0)
}
for (const name of ["minutes", "rate", "seed"]) {
  const value = Number(values[name])
  if (!Number.isSafeInteger(value) || value < 1) {
    usage(`--${name} must be a whole number of at least 1, got ${values[name]}.`)
  }
}

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs")
const args = ["run", "test/long/Soak.test.ts", "--disableConsoleIntercept", "--silent=false"]
const env = {
  ...process.env,
  TEST_SIZE: "long",
  // Callers wait longer for an answer than in the fault cases.
  FAULTS_PACE: process.env.FAULTS_PACE ?? "4",
  SOAK_MINUTES: values.minutes,
  SOAK_RATE: values.rate,
  SOAK_SEED: values.seed
}
const child = spawn(process.execPath, [vitest, ...args], { cwd: root, stdio: "inherit", env })
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal))
child.on("close", (code) => process.exit(code ?? 1))
