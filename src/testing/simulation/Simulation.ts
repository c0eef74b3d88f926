import { Data, Duration, Effect, LogLevel } from "effect"
import type { Handler } from "../../handlers/Handler.js"
import type { QueueSettingsPatch } from "../../queue/settings/QueueSettings.js"
import type { RateLimit } from "../../rate-limits/RateLimit.js"
import type { Schedule } from "../../schedule/Schedule.js"
import * as Chapters from "./Chapters.js"
import type { Invariant } from "./Invariant.js"
import * as Invariants from "./Invariants.js"
import * as ErasureInvariants from "./invariants/ErasureInvariants.js"
import * as ExecutionInvariants from "./invariants/ExecutionInvariants.js"
import * as WorkloadInvariants from "./invariants/WorkloadInvariants.js"
import * as Plan from "./Plan.js"
import type { JobSource } from "./PlanRunner.js"
import * as RegressionLine from "./RegressionLine.js"
import { ofViolations, type Report } from "./Report.js"
import * as Shrinker from "./Shrinker.js"
import * as SimulationRun from "./SimulationRun.js"
import type { Ports } from "./Tables.js"
import * as WatchedHandler from "./WatchedHandler.js"
import * as WorkflowWorkload from "./WorkflowWorkload.js"
import * as Workload from "./Workload.js"

// Simulates a cluster in one process: several pods with the real worker code, one in-memory database, virtual time, and
// faults generated from a seed. After the faults end, the cluster drains and its pods are stopped; then the history is
// checked against the invariants.

/** What to simulate: the seed, your handlers and jobs, and the faults. */
export interface SimulationOptions<R> {
  /** The same seed gives exactly the same run. */
  readonly seed: number
  /** Your handlers, as a worker would run them. [a built-in workload whose handlers fail in every way] */
  readonly handlers?: ReadonlyArray<Handler<R>>
  /**
   * Your jobs, each from `SomeKind.job(payload, options)`. For the built-in workload, the number of jobs. [4 to 14, from
   * the seed]
   */
  readonly jobs?: number | ReadonlyArray<JobSource> | undefined
  /** Whether some jobs of the built-in workload are workflow executions. [true] */
  readonly workflows?: boolean
  /** Number of simulated processes. [1 to 3, from the seed] */
  readonly pods?: number | undefined
  /** Types of faults to inject. [all] */
  readonly faults?: Plan.FaultPlan
  /** Recurring jobs, which fire on virtual time. [none] */
  readonly schedules?: ReadonlyArray<Schedule>
  /** Rate limits that the handlers use. [none] */
  readonly limits?: ReadonlyArray<RateLimit>
  /** Queue settings by queue name. */
  readonly queues?: Readonly<Record<string, QueueSettingsPatch>>
  /** Your invariants, in addition to Nightshift's. */
  readonly invariants?: ReadonlyArray<Invariant>
  /** Maximum virtual time to drain after the last fault. [10 minutes; 1 day with your own handlers] */
  readonly drainTimeout?: Duration.DurationInput
  /** A plan to run instead of the seed's, such as a shrunk one. */
  readonly plan?: Plan.Plan
  /** Name of an invariant; the run ends as soon as it is violated. */
  readonly stopAt?: string | undefined
  /** Minimum log level of processes and handlers. [LogLevel.None] */
  readonly logLevel?: LogLevel.LogLevel
  /** Replaces database services, to test that the checker finds bugs in them. */
  readonly tamper?: SimulationRun.RunSpec<R>["tamper"]
}

interface Setup<R>
  extends Pick<
    SimulationRun.RunSpec<R>,
    "worker" | "handlersFor" | "jobs" | "queues" | "invariants" | "releases" | "hasRemote" | "drainTimeout"
  > {
  /** How many subjects the jobs have. */
  readonly subjects: number
}

/** The built-in workload. */
const defaultWorkload = (options: SimulationOptions<never>): Setup<Ports> => {
  const { seed } = options
  const hasRemote = typeof options.jobs !== "object" && Workload.hasOutside(seed)
  const runs = new Map<string, number>()
  const nthRun = (job: string) => {
    const nth = (runs.get(job) ?? 0) + 1
    runs.set(job, nth)
    return nth
  }
  return {
    worker: { queues: Object.keys(Workload.queues), schedules: [Workload.schedule], limits: [Workload.upstream] },
    jobs:
      typeof options.jobs === "object"
        ? options.jobs
        : (options.workflows === false ? Workload.jobs : Workload.jobsAndExecutions)(
            seed,
            options.jobs ?? Plan.size(seed).jobs
          ),
    queues: { ...Workload.queues, ...(hasRemote ? Workload.remoteQueues : {}), ...options.queues },
    invariants: [...WorkloadInvariants.all, ...ExecutionInvariants.all, ...ErasureInvariants.all],
    releases: Chapters.arePinned(seed),
    hasRemote,
    subjects: typeof options.jobs === "object" ? 0 : Workload.subjectsOf(seed),
    drainTimeout: Duration.toMillis(options.drainTimeout ?? "10 minutes"),
    handlersFor: ({ actor, isCalm, now, pod, checker }) =>
      Workload.handlers({
        seed,
        isCalm,
        nthRun,
        // Never resumes: the process is dead.
        crash: Effect.async<never>(() => pod.kill("crashes")),
        granted: () => checker.history.grants.push({ scope: Workload.upstream.scope, at: now() }),
        history: checker.history
      }).map((handler) =>
        // Executions run the replay of async workflows, which awaits promises.
        WatchedHandler.of(handler, { actor, checker, mayWait: handler.kind.name === WorkflowWorkload.executionKind })
      )
  }
}

const customSetup = <R>(handlers: ReadonlyArray<Handler<R>>, options: SimulationOptions<R>): Setup<R> => ({
  worker: {
    queues: [...new Set(handlers.map(({ kind }) => kind.queue))],
    schedules: options.schedules,
    limits: options.limits
  },
  jobs: typeof options.jobs === "object" ? options.jobs : [],
  queues: options.queues ?? {},
  invariants: [],
  releases: false,
  hasRemote: false,
  subjects: 0,
  drainTimeout: Duration.toMillis(options.drainTimeout ?? "1 day"),
  handlersFor: ({ actor, checker }) =>
    handlers.map((handler) => WatchedHandler.of(handler, { actor, checker, mayWait: true }))
})

/** Runs one seed. Never fails: violations are in the report. */
export const run = <R = never>(options: SimulationOptions<R>): Effect.Effect<Report, never, Exclude<R, Ports>> => {
  const { handlers, jobs, schedules = [], seed } = options
  // Without jobs, nothing runs that could violate an invariant.
  if (handlers !== undefined && typeof jobs !== "object" && (jobs !== undefined || schedules.length === 0))
    return Effect.dieMessage(`Simulation needs a list of jobs for your handlers, got ${jobs}. Pass { jobs }.`)
  // Pods provide the Ports that handlers need, but the compiler cannot subtract them from R.
  const setup = (
    handlers === undefined ? defaultWorkload(options as SimulationOptions<never>) : customSetup(handlers, options)
  ) as Setup<R>
  const plan =
    options.plan ??
    Plan.draw({
      seed,
      pods: options.pods ?? Plan.size(seed).pods,
      jobs: setup.jobs.length,
      queues: [...setup.worker.queues],
      viaEntryPoints: handlers === undefined,
      remoteQueue: setup.hasRemote ? Workload.remoteQueue : undefined,
      subjects: setup.subjects,
      faultPlan: options.faults ?? {}
    })
  const spec: SimulationRun.RunSpec<R> = {
    ...setup,
    seed,
    plan,
    invariants: [...Invariants.always, ...setup.invariants, ...(options.invariants ?? [])],
    stopAt: options.stopAt,
    logLevel: options.logLevel ?? LogLevel.None,
    tamper: options.tamper ?? ((tables) => tables)
  }
  const played = Effect.flatMap(Effect.runtime<R>(), (runtime) => SimulationRun.play(spec, runtime))
  return Effect.map(played, ({ coverage, faults, jobs, lasted, trace, violations }) => ({
    seed,
    plan,
    jobCount: setup.jobs.length,
    faults,
    violations,
    trace: trace.events,
    fingerprint: trace.fingerprint,
    coverage,
    jobs,
    lasted: Duration.millis(lasted)
  })) as Effect.Effect<Report, never, Exclude<R, Ports>>
}

/** Returns the report of a smaller plan that violates the same invariant, or the given report if there is none. */
export const shrink = <R = never>(
  options: SimulationOptions<R>,
  report: Report
): Effect.Effect<Report, never, Exclude<R, Ports>> =>
  Shrinker.shrink(report, (plan, stopAt) => run({ ...options, plan, stopAt }))

/** Describes a report: the violated invariant, the fault plan, and the events of the affected job. */
export const describe = (report: Report): string => ofViolations(report)

/**
 * The old name of `describe`.
 *
 * @deprecated Use `describe`.
 */
export const tell = describe

/** A replayed plan violates an invariant. */
export class SimulationFailed extends Data.TaggedError("SimulationFailed")<{
  /** The run, with the violated invariants. */
  readonly report: Report
}> {
  override get message(): string {
    return ofViolations(this.report)
  }
}

/**
 * Replays the plan of a line from `regressionLine`, with the handlers and invariants of `options` if the line was made
 * with any. Fails if an invariant is violated.
 */
export const regression = <R = never>(
  line: string,
  options: Omit<SimulationOptions<R>, "seed" | "plan"> = {}
): Effect.Effect<Report, SimulationFailed | RegressionLine.BadLine, Exclude<R, Ports>> =>
  Effect.flatMap(RegressionLine.read(line), ({ jobs, plan, seed }) =>
    Effect.filterOrFail(
      run({ ...options, jobs: options.jobs ?? jobs, plan, seed }),
      ({ violations }) => violations.length === 0,
      (report) => new SimulationFailed({ report })
    )
  )

/** The seed and plan of a report as one line of text, to be kept in a test. */
export const regressionLine = (report: Report): string => RegressionLine.write(report)

export type { Report } from "./Report.js"
