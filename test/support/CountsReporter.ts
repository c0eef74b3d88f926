import type { Reporter, TestModule } from "vitest/node"

/** Closes a run with one plain line, `N passed, N failed, N skipped`, that any script can read. */
export default class CountsReporter implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>, unhandledErrors: ReadonlyArray<unknown>): void {
    const counts = { passed: 0, failed: 0, skipped: 0, pending: 0 }
    // A file that could not be loaded holds no tests, and an error outside of every test belongs to none: both are failures.
    counts.failed += unhandledErrors.length
    for (const module of modules) {
      counts.failed += module.errors().length
      for (const test of module.children.allTests()) counts[test.result().state] += 1
    }
    process.on("exit", () => {
      process.stdout.write(
        `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped + counts.pending} skipped\n`
      )
    })
  }
}
