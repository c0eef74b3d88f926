import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Simulation } from "../../src/testing/effect.js"
import { scale } from "../support/Scale.js"

const seeds = scale("WORKFLOW_SEEDS", { usual: 1, long: 40 })

it.live(
  "workflow executions keep their promises under all faults",
  () =>
    Effect.gen(function* () {
      let stories = 0
      // Ten jobs of seed 4 are executions. In seed 53 one is cancelled while its step runs.
      for (const seed of [53, ...Array.from({ length: seeds }, (_, index) => 4 + index)]) {
        const report = yield* Simulation.run({ seed })
        expect(report.violations, Simulation.describe(report)).toEqual([])
        stories += report.jobs.filter(({ execution }) => execution !== undefined).length
      }
      expect(stories).toBeGreaterThan(seeds)
    }),
  { timeout: 3_600_000 }
)
