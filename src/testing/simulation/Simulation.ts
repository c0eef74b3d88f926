import { Duration, Effect, LogLevel } from "effect"
import type { Handler } from "../../handlers/Handler.js"
import type { RateLimit } from "../../limits/RateLimit.js"
import type { QueueSettingsPatch } from "../../queue/settings/QueueSettings.js"
import type { Schedule } from "../../schedule/Schedule.js"
import type { Invariant } from "./Invariant.js"
import * as Invariants from "./Invariants.js"
import * as WorkloadInvariants from "./invariants/WorkloadInvariants.js"
import * as Plan from "./Plan.js"
import type { Supply } from "./PlanRunner.js"
import type { Report } from "./Report.js"
import * as ReportText from "./ReportText.js"
import * as Shrinker from "./Shrinker.js"
import * as SimulationRun from "./SimulationRun.js"
import type { Ports } from "./Tables.js"
import * as WatchedHandler from "./WatchedHandler.js"
import * as Workload from "./Workload.js"

// A whole cluster in one process: the real crew of several pods on one database in memory, on virtual time, with everything
// going wrong that a seed can think of. Then nothing goes wrong any more, the cluster is left alone until all is done, its
// pods are stopped, and what happened is held against what Nightshift promises.

export interface SimulationOptions<R> {
  /** The same seed gives the same run, step by step. */
  readonly seed: number
  /** Your handlers. Absent: ones of our own, that misbehave in every way. */
  readonly handlers?: ReadonlyArray<Handler<R>>
  /** Your jobs, each from `SomeKind.job(payload, options)`; without handlers of yours, how many. [12] */
  readonly jobs?: number | ReadonlyArray<Supply>
  /** How many pods. [3] */
  readonly pods?: number
  /** What may go wrong. [everything] */
  readonly faults?: Plan.FaultPlan
  readonly schedules?: ReadonlyArray<Schedule>
  readonly limits?: ReadonlyArray<RateLimit>
  /** How operators have set the queues, by name. */
  readonly queues?: Readonly<Record<string, QueueSettingsPatch>>
  /** What you promise, besides what Nightshift does. */
  readonly invariants?: ReadonlyArray<Invariant>
  /** How long the cluster may take to finish, once nothing goes wrong any more. [10 minutes; a day with handlers of yours] */
  readonly patience?: Duration.DurationInput
  /** This instead of what the seed says: a plan that was made smaller. */
  readonly plan?: Plan.Plan
  /** The name of an invariant: the run ends as soon as it is broken. */
  readonly stopAt?: string | undefined
  /** What pods and handlers log. [LogLevel.None] */
  readonly logLevel?: LogLevel.LogLevel
  /** Puts something else in the place of the database, to see that a mistake there would be found. */
  readonly tamper?: SimulationRun.RunSpec<R>["tamper"]
}

const defaults = { pods: 3, jobs: 12 } as const

type Cast<R> = Pick<SimulationRun.RunSpec<R>, "crew" | "handlersFor" | "jobs" | "queues" | "invariants" | "patience">

/** Nobody gave any handlers: ours are played. */
const defaultWorkload = (options: SimulationOptions<never>): Cast<Ports> => {
  const { seed } = options
  const runs = new Map<string, number>()
  const nthRun = (job: string) => {
    const nth = (runs.get(job) ?? 0) + 1
    runs.set(job, nth)
    return nth
  }
  return {
    crew: { queues: Object.keys(Workload.queues), schedules: [Workload.schedule], limits: [Workload.upstream] },
    jobs: typeof options.jobs === "object" ? options.jobs : Workload.jobs(seed, options.jobs ?? defaults.jobs),
    queues: { ...Workload.queues, ...options.queues },
    invariants: WorkloadInvariants.all,
    patience: Duration.toMillis(options.patience ?? "10 minutes"),
    handlersFor: ({ actor, isCalm, now, pod, checker }) =>
      Workload.handlers({
        seed,
        isCalm,
        nthRun,
        // Whoever crashes does not come back to see what became of it.
        crash: Effect.async<never>(() => pod.kill("crashes")),
        granted: () => checker.history.grants.push({ scope: Workload.upstream.scope, at: now() })
      }).map((handler) => WatchedHandler.of(handler, { actor, checker, mayWait: false }))
  }
}

const yourCast = <R>(handlers: ReadonlyArray<Handler<R>>, options: SimulationOptions<R>): Cast<R> => ({
  crew: {
    queues: [...new Set(handlers.map(({ kind }) => kind.queue))],
    schedules: options.schedules,
    limits: options.limits
  },
  jobs: typeof options.jobs === "object" ? options.jobs : [],
  queues: options.queues ?? {},
  invariants: [],
  patience: Duration.toMillis(options.patience ?? "1 day"),
  handlersFor: ({ actor, checker }) =>
    handlers.map((handler) => WatchedHandler.of(handler, { actor, checker, mayWait: true }))
})

/** Runs one seed from its beginning to its end. It does not fail: what went wrong is in the report. */
export const run = <R = never>(options: SimulationOptions<R>): Effect.Effect<Report, never, Exclude<R, Ports>> => {
  const { handlers, seed } = options
  // What handlers need of the ports they get from their pod; only the compiler cannot subtract that.
  const cast = (
    handlers === undefined ? defaultWorkload(options as SimulationOptions<never>) : yourCast(handlers, options)
  ) as Cast<R>
  const plan =
    options.plan ??
    Plan.draw({
      seed,
      pods: options.pods ?? defaults.pods,
      jobs: cast.jobs.length,
      queues: [...cast.crew.queues],
      faultPlan: options.faults ?? {}
    })
  const spec: SimulationRun.RunSpec<R> = {
    ...cast,
    seed,
    plan,
    invariants: [...Invariants.always, ...cast.invariants, ...(options.invariants ?? [])],
    stopAt: options.stopAt,
    logLevel: options.logLevel ?? LogLevel.None,
    tamper: options.tamper ?? ((tables) => tables)
  }
  const played = Effect.flatMap(Effect.runtime<R>(), (runtime) => SimulationRun.play(spec, runtime))
  return Effect.map(played, ({ faults, jobs, lasted, trace, violations }) => ({
    seed,
    plan,
    faults,
    violations,
    trace: trace.events,
    fingerprint: trace.fingerprint,
    jobs,
    lasted: Duration.millis(lasted)
  })) as Effect.Effect<Report, never, Exclude<R, Ports>>
}

/** A report of a smaller plan that breaks the same promise; the same report where none was found, or none was broken. */
export const shrink = <R = never>(
  options: SimulationOptions<R>,
  report: Report
): Effect.Effect<Report, never, Exclude<R, Ports>> =>
  Shrinker.shrink(report, (plan, stopAt) => run({ ...options, plan, stopAt }))

/** What a person wants to know of a report: which promise was broken, by which plan, and what happened to the job. */
export const tell = (report: Report): string => ReportText.ofViolations(report)

export type { Report } from "./Report.js"
