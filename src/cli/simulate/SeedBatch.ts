import { Effect } from "effect"
import * as Coverage from "../../testing/simulation/Coverage.js"
import type { Report } from "../../testing/simulation/Report.js"

// A range of seeds, run in this process or in a worker.

/** Options that apply to all seeds of a command. */
export interface SeedOptions {
  readonly pods?: number | undefined
  readonly jobs?: number | undefined
}

export interface SeedBatch {
  readonly from: number
  readonly count: number
}

/** Plain data, because workers send it to their parent process. */
export interface BatchResult extends SeedBatch {
  /** One fingerprint per seed, in order. */
  readonly fingerprints: ReadonlyArray<string>
  /** Seeds that violate an invariant. */
  readonly violating: ReadonlyArray<number>
  readonly coverage: Coverage.Coverage
}

/** Imported lazily, so that other commands start faster. */
export const simulation = Effect.promise(() => import("../../testing/simulation/Simulation.js"))

/** Runs a batch. `onRun` is called with every report. */
export const run = (
  { count, from }: SeedBatch,
  wanted: SeedOptions,
  onRun: (report: Report) => Effect.Effect<void> = () => Effect.void
): Effect.Effect<BatchResult> =>
  Effect.gen(function* () {
    const { run } = yield* simulation
    const fingerprints: Array<string> = []
    const violating: Array<number> = []
    let coverage = Coverage.none
    for (let seed = from; seed < from + count; seed += 1) {
      const report = yield* run({ ...wanted, seed })
      fingerprints.push(report.fingerprint)
      if (report.violations.length > 0) violating.push(seed)
      coverage = Coverage.sum([coverage, report.coverage])
      yield* onRun(report)
    }
    return { from, count, fingerprints, violating, coverage }
  })
