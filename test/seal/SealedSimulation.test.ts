import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Codec } from "../../src/codec/index.js"
import * as Seal from "../../src/seal/Seal.js"
import { Simulation } from "../../src/testing/effect.js"
import { scale } from "../support/Scale.js"

// A simulated cluster whose values are sealed. The same seed must have the same history, so the codec uses no random bytes.

const used = { seal: 0, open: 0 }
const codec: Codec = {
  seal: (json) => {
    used.seal += 1
    return { key: "k1", text: Buffer.from(json).toString("base64url") }
  },
  open: ({ text }) => {
    used.open += 1
    return Buffer.from(text, "base64url").toString()
  },
  plainEvents: ["*"]
}

const seeds = scale("SEALED_SEEDS", { usual: 1, long: 20 })

it.live(
  "a cluster with sealed values keeps every guarantee under all faults",
  () =>
    Effect.gen(function* () {
      for (const seed of Array.from({ length: seeds }, (_, index) => 53 + index)) {
        const report = yield* Simulation.run({ seed, tamper: (tables) => Seal.over(codec)(tables) })
        expect(report.violations, Simulation.describe(report)).toEqual([])
      }
      expect(used.seal).toBeGreaterThan(50)
      expect(used.open).toBeGreaterThan(50)
    }),
  { timeout: 3_600_000 }
)
