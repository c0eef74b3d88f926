import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import { everyFault, faultsOf } from "../testing/SimulatedFaults.js"

const patient = { timeout: 1_800_000 }

const simulate = (...args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { code, stderr, stdout } = yield* Nightshift.run(["simulate", ...args, "--json"], {
      cwd: yield* Nightshift.folder
    })
    expect(code, `${stderr}\n${stdout.slice(0, 2_000)}`).toBe(0)
    return JSON.parse(stdout) as { readonly kept: number; readonly fingerprint: string; readonly untouched: unknown }
  })

describe("a simulation of many seeds", () => {
  it.scopedLive(
    "keeps every guarantee of the queue, on all cores",
    () =>
      Effect.gen(function* () {
        const { kept } = yield* simulate("--seed", "301", "--runs", "30")
        expect(kept).toBe(30)
      }),
    patient
  )

  it.live(
    "meets every kind of fault within two hundred",
    () =>
      Effect.gen(function* () {
        const seen = new Set<string>()
        const missing = () => everyFault.filter((fault) => !seen.has(fault))
        for (let seed = 101; seed <= 300 && missing().length > 0; seed += 1)
          for (const fault of yield* faultsOf(seed)) seen.add(fault)
        expect(missing()).toEqual([])
      }),
    patient
  )

  it.scopedLive(
    "gives the same traces for any number of processes",
    () =>
      Effect.gen(function* () {
        const [one, two, five] = yield* Effect.forEach(["1", "2", "5"], (workers) =>
          simulate("--seed", "1", "--runs", "8", "--workers", workers)
        )
        expect(two?.fingerprint).toBe(one?.fingerprint)
        expect(five?.fingerprint).toBe(one?.fingerprint)
      }),
    patient
  )
})
