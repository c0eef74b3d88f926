import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/own-methods.ts"],
    reporters: ["default", "./test/support/CountsReporter.ts"],
    pool: "forks",
    // Most tests wait for PostgreSQL, processes and sockets: more of them than cores keep the machine busy.
    poolOptions: { forks: { minForks: 3, maxForks: 3, isolate: false } },
    silent: "passed-only",
    testTimeout: 60_000,
    hookTimeout: 60_000
  }
})
