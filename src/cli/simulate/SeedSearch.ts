import { Effect } from "effect"
import * as Coverage from "../../testing/simulation/Coverage.js"
import type { Report } from "../../testing/simulation/Report.js"
import { digest } from "../../testing/simulation/Seed.js"
import * as ProgressBar from "../ProgressBar.js"
import * as SeedBatch from "./SeedBatch.js"
import * as SeedWorkers from "./SeedWorkers.js"

/** Seeds per batch: enough to make the cost of messages negligible, few enough to keep all workers busy until the end. */
const perBatch = 20

export interface Search extends SeedBatch.SeedBatch {
  readonly wanted: SeedBatch.SeedOptions
  /** Number of child processes; with 1, the seeds run in this process. */
  readonly workers: number
  /** Whether to run all seeds even if one violates an invariant. */
  readonly keepGoing: boolean
}

export interface Found {
  /** Number of seeds that ran. */
  readonly ran: number
  /** Seeds that violate an invariant, in order. */
  readonly violating: ReadonlyArray<number>
  /** Hash of all traces, in the order of the seeds: the same for any number of workers. */
  readonly fingerprint: string
  readonly coverage: Coverage.Coverage
}

const batchesOf = ({ count, from }: SeedBatch.SeedBatch): ReadonlyArray<SeedBatch.SeedBatch> =>
  Array.from({ length: Math.ceil(count / perBatch) }, (_, index) => ({
    from: from + index * perBatch,
    count: Math.min(perBatch, count - index * perBatch)
  }))

const combined = (results: ReadonlyArray<SeedBatch.BatchResult>): Found => {
  const inOrder = [...results].sort((a, b) => a.from - b.from)
  const fingerprints = inOrder.flatMap((result) => result.fingerprints)
  return {
    ran: fingerprints.length,
    violating: inOrder.flatMap(({ violating }) => violating),
    fingerprint:
      fingerprints.length === 1
        ? (fingerprints[0] ?? "")
        : digest(fingerprints.join(" ")).toString(16).padStart(8, "0"),
    coverage: Coverage.sum(inOrder.map(({ coverage }) => coverage))
  }
}

/** Runs the seeds until one violates an invariant, or all of them. `onRun` gets the reports of seeds that run in this process. */
export const search = (
  options: Search,
  onRun: (report: Report) => Effect.Effect<void>
): Effect.Effect<Found, SeedWorkers.WorkerEnded> =>
  Effect.gen(function* () {
    const { count, keepGoing, wanted, workers } = options
    const waiting = [...batchesOf(options)]
    const results: Array<SeedBatch.BatchResult> = []
    let done = 0
    const drawn = (seeds: number) => {
      done += seeds
      return ProgressBar.draw("simulate", done, count)
    }
    const here: SeedWorkers.Worker = {
      run: (batch) => SeedBatch.run(batch, wanted, (report) => Effect.zipRight(onRun(report), drawn(1)))
    }
    const isOver = () => waiting.length === 0 || (!keepGoing && results.some(({ violating }) => violating.length > 0))
    const work = Effect.gen(function* () {
      const worker = workers === 1 ? here : yield* SeedWorkers.start
      while (!isOver()) {
        const batch = waiting.shift()
        if (batch === undefined) return
        results.push(yield* worker.run(batch, wanted))
        if (workers > 1) yield* drawn(batch.count)
      }
    }).pipe(Effect.scoped)
    yield* Effect.all(
      Array.from({ length: workers }, () => work),
      { concurrency: "unbounded", discard: true }
    )
    yield* ProgressBar.clear
    return combined(results)
  })
