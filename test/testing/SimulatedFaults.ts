import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { Simulation } from "../../src/testing/index.js"

/** What a simulation in which everything may go wrong tells of, sooner or later. */
export const everyFault = [
  ["is killed", "crashes", "stands still", "goes on", "is told to stop", "cannot start"],
  [
    "is refused",
    "is slow",
    "nobody hears it",
    "does not hear: work in",
    "cut everybody off",
    "step the database's clock by",
    "fails, and with it its transaction"
  ],
  ["its handler failed", "its handler said Throttled", "its handler was interrupted", "said Snooze", "said Dead"],
  [
    "dead (exhausted)",
    "dead (cancelled)",
    "dead (rejected)",
    "(rolled back)",
    "pause queue",
    "is stored: obituary",
    "is stored: tick"
  ]
].flat()

/** Plays a seed, which must keep every promise, and answers which kinds of fault its trace tells of. */
export const faultsOf = (seed: number): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(Simulation.run({ seed, jobs: 16, pods: 2 + (seed % 2) }), (report) => {
    expect(report.violations, Simulation.tell(report)).toEqual([])
    const told = report.trace.map(({ what }) => what).join("\n")
    return everyFault.filter((fault) => told.includes(fault))
  })
