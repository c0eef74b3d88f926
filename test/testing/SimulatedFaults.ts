import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { Simulation } from "../../src/testing/effect.js"

/** Trace events of every kind of fault. */
export const everyFault = [
  ["is killed", "crashes", "freezes", "resumes", "is asked to stop", "cannot start"],
  [
    "is refused",
    "is slow",
    "its reply is lost",
    "misses notification: work in",
    "disconnect all processes",
    ", then its process is killed",
    ", then its process is disconnected",
    "step the database's clock by",
    "misreads the database's clock",
    "has a slow clock",
    "loses its lock",
    "whose lock stays for",
    "fails and rolls back its transaction"
  ],
  ["handler failed", "handler returned Throttled", "handler was interrupted", "returned Snooze", "returned Dead"],
  [
    "dead (exhausted)",
    "dead (cancelled)",
    "dead (rejected)",
    "(rolled back)",
    "pause queue",
    "in plain, running (attempt 1",
    "got no answer from",
    "delivery-1 is Duplicate",
    "file 1 is acknowledged",
    "is stored: obituary",
    "is stored: tick",
    "has claimed 2 jobs",
    "and again: ",
    "lease lost",
    "dies with ",
    "returns ",
    "whose response is lost",
    "endpoint accepts",
    "subject 1 is not erased yet",
    "subject 1 is erased"
  ]
].flat()

/** Runs a seed, which must keep every guarantee, and returns the kinds of faults in its trace. */
export const faultsOf = (seed: number): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(Simulation.run({ seed }), (report) => {
    expect(report.violations, Simulation.describe(report)).toEqual([])
    const told = report.trace.map(({ what, who }) => `${who} ${what}`).join("\n")
    return everyFault.filter((fault) => told.includes(fault))
  })
