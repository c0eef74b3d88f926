import { relative } from "node:path"
import type { Reporter, TestModule } from "vitest/node"

const slowest = (modules: ReadonlyArray<TestModule>) =>
  modules
    .map((module) => ({
      file: relative(process.cwd(), module.moduleId),
      seconds: module.diagnostic().duration / 1_000
    }))
    .sort((one, other) => other.seconds - one.seconds)
    .slice(0, 10)
    .map(({ file, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${file}`)

/** Ends a run with its ten slowest files and one line, `N passed, N failed, N skipped`, that scripts can parse. */
export default class CountsReporter implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>, unhandledErrors: ReadonlyArray<unknown>): void {
    const counts = { passed: 0, failed: 0, skipped: 0, pending: 0 }
    // A file that failed to load has no tests, and an error outside every test belongs to none: count both as failures.
    counts.failed += unhandledErrors.length
    for (const module of modules) {
      counts.failed += module.errors().length
      for (const test of module.children.allTests()) counts[test.result().state] += 1
    }
    process.on("exit", () => {
      if (modules.length > 10) process.stdout.write(`The ten slowest files:\n${slowest(modules).join("\n")}\n\n`)
      process.stdout.write(
        `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped + counts.pending} skipped\n`
      )
    })
  }
}
