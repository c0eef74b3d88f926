import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { everyFault, faultsOf } from "../testing/SimulatedFaults.js"

describe("a simulation of two hundred seeds", () => {
  it.live(
    "keeps every guarantee of the queue under all faults",
    () =>
      Effect.gen(function* () {
        const seen = new Set<string>()
        for (let seed = 101; seed <= 300; seed += 1) for (const fault of yield* faultsOf(seed)) seen.add(fault)
        expect(seen.size).toBe(everyFault.length)
      }),
    { timeout: 1_800_000 }
  )
})
