import { tmpdir } from "node:os"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { longTests } from "./scripts/long-tests.mjs"
import * as MemoryFolder from "./test/support/MemoryFolder.js"
import SlowFirst from "./test/support/SlowFirst.js"

const isLong = process.env.TEST_SIZE === "long"
const isFaults = process.env.TEST_SIZE === "faults"
const isNext = process.env.TEST_SIZE === "next"

// Set here because every process of the run inherits it; global-setup.ts removes the folder.
if (process.env.TMPDIR === undefined) {
  const folder = MemoryFolder.make()
  // The browser was unpacked into the default folder before this run.
  process.env.CHROMIUM_CACHE ??= tmpdir()
  if (folder !== undefined) process.env.TMPDIR = folder
}

/** On two cores, three are a sixth faster than four; the tests of long runs wait more. */
const workers = isLong ? 4 : 3

/** Files whose tests have a larger size in a long run. */
const sized = [
  "cli/Commands",
  "journeys/{Crashes,Environments,Service}",
  "database/embedded/PostgresBinaries",
  "http/Multipart",
  "schedule/{RandomExpressions,Words}",
  "uploads/StoragePg",
  "scripts/bench",
  "testing/Simulation",
  "testing/SimulatedWorkflows",
  "worker/RemoteWorkers",
  "workflow/PostgreSQL"
].map((name) => `test/${name}.test.ts`)

/** The real faults, which `npm run test:faults` runs. */
const faults = "test/faults/Faults.test.ts"

/** Builds and starts a Next.js app, which `npm run test:next` runs. */
const next = "test/next/*.test.ts"

const included: Readonly<Record<string, ReadonlyArray<string>>> = {
  faults: [faults],
  next: [next],
  dump: ["test/upgrades/MakeDump.ts"],
  long: [...longTests, ...sized]
}
const include = [...(included[process.env.TEST_SIZE ?? ""] ?? ["test/**/*.test.ts"])]
const reporters = isFaults ? ["./test/faults/FaultsReporter.ts"] : []

/** Examples import the package by its name: they are given the build. */
const built = (name: string) => fileURLToPath(new URL(`dist/${name}.js`, import.meta.url))

export default defineConfig({
  resolve: {
    alias: [
      { find: /^nightshift$/, replacement: built("index") },
      { find: /^nightshift\/(client|codec|serverless|testing|workflow)$/, replacement: built("$1") },
      { find: /^nightshift\/effect\/testing$/, replacement: built("effect-testing") }
    ]
  },
  test: {
    server: { deps: { external: [/\/dist\/[\w-]+\.js$/] } },
    include,
    exclude: ["**/node_modules/**", ...(isFaults || isNext ? [] : isLong ? [faults] : [...longTests, faults, next])],
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/own-methods.ts"],
    reporters: ["default", ...reporters, "./test/support/CountsReporter.ts"],
    sequence: { sequencer: SlowFirst },
    pool: "forks",
    // Some tests wait for PostgreSQL, processes and sockets, so more workers than cores keep the machine busy. Each loads all modules.
    poolOptions: {
      forks: { minForks: workers, maxForks: workers, isolate: false, execArgv: ["--max-semi-space-size=64"] }
    },
    // Fault cases mostly wait for timeouts and restarts.
    maxConcurrency: Number(process.env.FAULTS_AT_ONCE ?? 6),
    silent: "passed-only",
    // A machine may be busy with other work. Only a test that hangs reaches this limit.
    testTimeout: isNext ? 600_000 : isLong ? 180_000 : 60_000,
    // Hooks start services and browsers, several at once.
    hookTimeout: 180_000
  }
})
