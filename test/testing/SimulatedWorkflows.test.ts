import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Simulation } from "../../src/testing/index.js"
import { scale } from "../support/Scale.js"

const seeds = scale("WORKFLOW_SEEDS", { usual: 1, long: 40 })

it.live(
  "workflow executions keep their promises under all faults",
  () =>
    Effect.gen(function* () {
      let stories = 0
      // Ten jobs of seed 4 are executions.
      for (let seed = 4; seed < 4 + seeds; seed += 1) {
        const report = yield* Simulation.run({ seed })
        expect(report.violations, Simulation.describe(report)).toEqual([])
        stories += report.jobs.filter(({ execution }) => execution !== undefined).length
      }
      expect(stories).toBeGreaterThan(seeds)
    }),
  { timeout: 3_600_000 }
)
