import type { z } from "zod"

/** The history of a shift with retries, jitter, schedules, workflows and batches as text. */
export const history: (
  modules: {
    readonly client: typeof import("../../src/client/index.js")
    readonly testing: typeof import("../../src/testing/index.js")
    readonly z: typeof z
  },
  seed: number | undefined
) => Promise<string>
