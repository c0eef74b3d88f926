import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Console, Effect, Option, Random } from "effect"
import type { Report } from "../../testing/simulation/Simulation.js"
import * as CommonOptions from "../CommonOptions.js"
import { SomeFailed, UsageError } from "../Failure.js"
import * as ProgressBar from "../ProgressBar.js"

const seed = Options.integer("seed").pipe(
  Options.withDescription("First seed (default: random). The same seed gives the same run."),
  Options.optional
)
const runs = Options.integer("runs").pipe(
  Options.withDescription("Number of consecutive seeds to run (default 100, or 1 with --seed)."),
  Options.optional
)
const pods = Options.integer("pods").pipe(Options.withDescription("Number of pods."), Options.withDefault(3))
const jobs = Options.integer("jobs").pipe(Options.withDescription("Number of jobs."), Options.withDefault(12))
const trace = Options.boolean("trace").pipe(Options.withDescription("Print every step of each run."))

interface Wanted {
  readonly pods: number
  readonly jobs: number
}

const within = (name: string, value: number, most: number) =>
  value >= 1 && value <= most
    ? Effect.void
    : new UsageError({ message: `--${name} must be between 1 and ${most}, got ${value}.` })

/** Imported lazily, so that other commands start faster. */
const simulation = Effect.promise(async () => ({
  ...(await import("../../testing/simulation/Simulation.js")),
  ReportText: await import("../../testing/simulation/Report.js")
}))

const replay = (seed: number, { jobs, pods }: Wanted) =>
  `nightshift simulate --seed ${seed} --pods ${pods} --jobs ${jobs} --trace`

const jsonOf = (report: Report, wanted: Wanted, withTrace: boolean) => ({
  seed: report.seed,
  ok: report.violations.length === 0,
  fingerprint: report.fingerprint,
  violations: report.violations,
  ...(report.violations.length === 0
    ? {}
    : { plan: report.plan.steps, faults: report.faults, replay: replay(report.seed, wanted) }),
  ...(withTrace ? { trace: report.trace } : {})
})

/**
 * Runs seeds until one violates an invariant. Returns the shrunk report of that seed and the number of seeds that
 * passed before it.
 */
const search = (from: number, count: number, wanted: Wanted, onRun: (report: Report) => Effect.Effect<void>) =>
  Effect.gen(function* () {
    const { run, shrink } = yield* simulation
    for (let kept = 0; kept < count; kept += 1) {
      const options = { ...wanted, seed: from + kept }
      const report = yield* run(options)
      yield* onRun(report)
      yield* ProgressBar.draw("simulate", kept + 1, count)
      if (report.violations.length === 0) continue
      yield* ProgressBar.write(`seed ${report.seed} violates an invariant; shrinking its fault plan`)
      const broken = yield* shrink(options, report)
      yield* ProgressBar.clear
      return { kept, broken }
    }
    yield* ProgressBar.clear
    return { kept: count, broken: undefined }
  })

export const command = Command.make(
  "simulate",
  { seed, runs, pods, jobs, json: CommonOptions.json, trace },
  (options) =>
    Effect.gen(function* () {
      const count = Option.getOrElse(options.runs, () => (Option.isSome(options.seed) ? 1 : 100))
      yield* within("runs", count, 10_000_000)
      yield* within("pods", options.pods, 20)
      yield* within("jobs", options.jobs, 1_000)
      const from = yield* Option.match(options.seed, {
        onSome: Effect.succeed,
        onNone: () => Random.nextIntBetween(1, 1_000_000_000)
      })
      const wanted = { pods: options.pods, jobs: options.jobs }
      const { ReportText } = yield* simulation
      const printTrace = (report: Report) =>
        options.trace && !options.json ? Console.log(ReportText.ofTrace(report)) : Effect.void
      let last: Report | undefined
      const { broken, kept } = yield* search(from, count, wanted, (report) => {
        last = report
        return printTrace(report)
      })
      const seeds = kept === 1 && broken === undefined ? `seed ${from}` : `seeds ${from} to ${from + kept - 1}`
      if (options.json) {
        const shown = broken ?? (count === 1 ? last : undefined)
        const rest = shown === undefined ? {} : { report: jsonOf(shown, wanted, options.trace) }
        yield* Console.log(JSON.stringify({ ok: broken === undefined, from, kept, ...rest }, null, 2))
      } else if (broken === undefined) {
        yield* Console.log(
          `${seeds}: all invariants hold${count === 1 && last !== undefined ? ` (trace ${last.fingerprint})` : ""}`
        )
      } else {
        yield* Console.log(`${ReportText.ofViolations(broken)}\n\nto replay: ${replay(broken.seed, wanted)}`)
      }
      if (broken !== undefined)
        return yield* new SomeFailed({ reasons: [`Seed ${broken.seed} violates an invariant.`] })
    })
).pipe(Command.withDescription("Run simulated clusters with random faults and check the queue's invariants."))
