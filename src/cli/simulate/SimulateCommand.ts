import { availableParallelism } from "node:os"
import { Clock, Console, Effect, Random } from "effect"
import * as Coverage from "../../testing/simulation/Coverage.js"
import * as ReportText from "../../testing/simulation/Report.js"
import type { Report } from "../../testing/simulation/Simulation.js"
import * as CommonOptions from "../CommonOptions.js"
import { notBoth, SomeFailed, UsageError } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as ProgressBar from "../ProgressBar.js"
import { print, printJson } from "../Terminal.js"
import { type SeedOptions, simulation } from "./SeedBatch.js"
import { type Found, search } from "./SeedSearch.js"
import * as SeedWorkers from "./SeedWorkers.js"

const upTo = (max: number) => Input.integer({ min: 1, max })

const flag = (name: string, value: number | undefined) => (value === undefined ? "" : ` --${name} ${value}`)

const replayOf = (seed: number, { jobs, pods }: SeedOptions) =>
  `nightshift simulate --seed ${seed}${flag("pods", pods)}${flag("jobs", jobs)} --trace`

const jsonOf = (report: Report, withTrace: boolean) => ({
  seed: report.seed,
  ok: report.violations.length === 0,
  fingerprint: report.fingerprint,
  violations: report.violations,
  ...(report.violations.length === 0 ? {} : { plan: report.plan.steps, faults: report.faults }),
  ...(withTrace ? { trace: report.trace } : {})
})

/** Runs a violating seed again and shrinks its plan. */
const shrunk = (seed: number, wanted: SeedOptions) =>
  Effect.gen(function* () {
    const { run, shrink } = yield* simulation
    yield* ProgressBar.write(`seed ${seed} violates an invariant; shrinking its fault plan`)
    const small = yield* shrink({ ...wanted, seed }, yield* run({ ...wanted, seed }))
    yield* ProgressBar.clear
    return small
  })

const counted = (count: number) => count.toLocaleString("en-US")

const covered = (found: Found): ReadonlyArray<string> => {
  const operations = found.coverage.operations
  const total = operations.reduce((sum, { count }) => sum + count, 0)
  const hits = operations.reduce((sum, { hits }) => sum + Object.values(hits).reduce((all, count) => all + count, 0), 0)
  const untouched = Coverage.untouched(found.coverage)
  return [
    `faults: ${counted(hits)} in ${counted(total)} operations; ${operations.length - untouched.length} of ${operations.length} kinds of operations were hit by every applicable fault`,
    ...(untouched.length === 0 || found.ran < 1_000 ? [] : [`not hit yet: ${untouched.join("; ")}`])
  ]
}

const succeeded = (from: number, found: Found, seconds: number): ReadonlyArray<string> => [
  `${found.ran === 1 ? `seed ${from}` : `seeds ${from} to ${from + found.ran - 1}`}: all invariants hold (trace ${found.fingerprint})`,
  ...(found.ran === 1 ? [] : [`${counted(found.ran)} seeds in ${seconds.toFixed(1)} s`, ...covered(found)])
]

const failed = (report: Report, wanted: SeedOptions, found: Found, line: string): ReadonlyArray<string> => [
  ReportText.ofViolations(report),
  "",
  ...(found.violating.length > 1 ? [`seeds that violate an invariant: ${found.violating.join(", ")}`] : []),
  `to replay the seed: ${replayOf(report.seed, wanted)}`,
  `to replay this plan: nightshift simulate --trace --plan '${line}'`,
  `to keep it as a test: yield* Simulation.regression('${line}')`
]

const replayPlan = (line: string, options: { readonly json: boolean; readonly trace: boolean }) =>
  Effect.gen(function* () {
    const { regression } = yield* simulation
    const report = yield* regression(line).pipe(
      Effect.catchTag("SimulationFailed", ({ report }) => Effect.succeed(report)),
      Effect.catchTag("BadLine", ({ message }) => new UsageError({ message: `--plan: ${message}` }))
    )
    const lines = [...(options.trace ? [ReportText.ofTrace(report), ""] : []), ReportText.ofViolations(report)]
    yield* print(options.json, jsonOf(report, options.trace), lines.join("\n"))
    if (report.violations.length > 0) return yield* new SomeFailed({ reasons: ["The plan violates an invariant."] })
  })

export const command = Command.make({
  about: "Run simulated clusters with random faults and check the queue's invariants.",
  options: {
    seed: Input.optional(Input.integer(), "First seed (default: random). The same seed gives the same run."),
    runs: Input.optional(upTo(10_000_000), "Number of consecutive seeds to run (default 100, or 1 with --seed)."),
    pods: Input.optional(upTo(20), "Number of simulated processes (default: 1 to 3, from the seed)."),
    jobs: Input.optional(upTo(1_000), "Number of jobs (default: 4 to 14, from the seed)."),
    workers: Input.optional(
      upTo(256),
      "Number of processes that run seeds (default: one per core, or 1 for fewer than 40 seeds)."
    ),
    plan: Input.optional(Input.text, "Replay the shrunk plan that a failed run printed, instead of seeds."),
    keepGoing: Input.flag("Run all seeds even if one violates an invariant, and list the seeds that do."),
    coverage: Input.flag("Print how often each operation was hit by each fault."),
    json: CommonOptions.json,
    trace: Input.flag("Print every step of each run. Uses one process.")
  },
  examples: {
    "nightshift simulate": "run 100 simulations with random faults",
    "nightshift simulate --runs 10000": "run 10,000 simulations",
    "nightshift simulate --seed 42 --trace": "print every step of one simulation",
    "nightshift simulate --seed 42 --json": "print JSON"
  },
  run: (options) =>
    Effect.gen(function* () {
      if (SeedWorkers.isWorker()) return yield* SeedWorkers.serve
      const { coverage, jobs, keepGoing, plan, pods, runs, seed, workers } = options
      const ofSeeds = {
        seed,
        runs,
        pods,
        jobs,
        workers,
        "keep-going": keepGoing || undefined,
        coverage: coverage || undefined
      }
      for (const [name, given] of Object.entries(ofSeeds))
        yield* notBoth("--plan", `--${name}`, plan !== undefined && given !== undefined)
      if (plan !== undefined) return yield* replayPlan(plan, options)
      const count = runs ?? (seed === undefined ? 100 : 1)
      const lastFrom = Number.MAX_SAFE_INTEGER - count + 1
      if (seed !== undefined && seed > lastFrom)
        return yield* new UsageError({
          message: `--seed must be at most ${lastFrom} with --runs ${count}, got ${seed}.`
        })
      const from = seed ?? (yield* Random.nextIntBetween(1, 1_000_000_000))
      const wanted: SeedOptions = { pods, jobs }
      const usual = count < 40 || options.trace ? 1 : availableParallelism()
      let last: Report | undefined
      const began = yield* Clock.currentTimeMillis
      const found = yield* search(
        {
          from,
          count,
          wanted,
          keepGoing,
          workers: options.trace ? 1 : (workers ?? usual)
        },
        (report) => {
          last = report
          return options.trace && !options.json ? Console.log(ReportText.ofTrace(report)) : Effect.void
        }
      )
      const seconds = ((yield* Clock.currentTimeMillis) - began) / 1000
      const [first] = found.violating
      const broken = first === undefined ? undefined : yield* shrunk(first, wanted)
      const line = broken === undefined ? "" : (yield* simulation).regressionLine(broken)
      if (options.json) {
        const shown = broken ?? (count === 1 ? last : undefined)
        yield* printJson({
          ok: broken === undefined,
          from,
          kept: first === undefined ? found.ran : first - from,
          seconds,
          fingerprint: found.fingerprint,
          violating: found.violating,
          ...(shown === undefined ? {} : { report: jsonOf(shown, options.trace) }),
          ...(broken === undefined ? {} : { replay: replayOf(broken.seed, wanted), regression: line }),
          coverage: found.coverage,
          untouched: Coverage.untouched(found.coverage)
        })
      } else {
        if (coverage) yield* Console.log(`${Coverage.table(found.coverage)}\n`)
        const text = broken === undefined ? succeeded(from, found, seconds) : failed(broken, wanted, found, line)
        yield* Console.log(text.join("\n"))
      }
      if (broken !== undefined)
        return yield* new SomeFailed({
          reasons: found.violating.map((seed) => `Seed ${seed} violates an invariant.`).slice(0, 20)
        })
    })
})
