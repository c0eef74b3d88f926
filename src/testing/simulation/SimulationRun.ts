import {
  Cause,
  Context,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  type LogLevel,
  Option,
  type Runtime,
  Schedule
} from "effect"
import { Leadership } from "../../cluster/Leadership.js"
import { Pods } from "../../cluster/Pods.js"
import type { JobId } from "../../core/Ids.js"
import type { StoredJob } from "../../core/StoredJob.js"
import type { Handler } from "../../handlers/Handler.js"
import { MinuteBuckets } from "../../history/MinuteBuckets.js"
import { isExecution, type JobRow } from "../../queue/JobRowMemory.js"
import { JobsMemory } from "../../queue/JobsMemory.js"
import type { QueueSettingsPatch } from "../../queue/settings/QueueSettings.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import type * as RateLimitsMemory from "../../rate-limits/RateLimitsMemory.js"
import { Storage } from "../../uploads/Storage.js"
import type { WorkerOptions } from "../../worker/Worker.js"
import type { Actor } from "./Actor.js"
import { sum } from "./CountsModel.js"
import type { Coverage } from "./Coverage.js"
import { FaultInjector } from "./FaultInjector.js"
import { type Fault, Faults, noFaults } from "./Faults.js"
import { HistoryChecker, type Violation } from "./HistoryChecker.js"
import type { Ending } from "./HistoryEntry.js"
import type { Invariant } from "./Invariant.js"
import { faultPeriod, type Plan, podNames, stepCounts } from "./Plan.js"
import { type JobSource, PlanRunner } from "./PlanRunner.js"
import { SimulatedPod, type Site, slowClock } from "./SimulatedPod.js"
import { SimulationScheduler } from "./SimulationScheduler.js"
import * as Tables from "./Tables.js"
import { Trace } from "./Trace.js"
import * as Workload from "./Workload.js"

/** Everything that defines a run. */
export interface RunSpec<R> {
  readonly seed: number
  readonly plan: Plan
  readonly worker: Omit<WorkerOptions<R>, "handlers" | "loops" | "queues"> & { readonly queues: ReadonlyArray<string> }
  readonly handlersFor: (controls: HandlerControls<R>) => ReadonlyArray<Handler<R>>
  readonly jobs: ReadonlyArray<JobSource>
  readonly queues: Readonly<Record<string, QueueSettingsPatch>>
  readonly invariants: ReadonlyArray<Invariant>
  /** Whether some pods have the next release of the workflows. */
  readonly releases: boolean
  /** Whether some jobs are for remote workers. */
  readonly hasRemote: boolean
  /** Maximum time to drain after the last fault, in milliseconds. */
  readonly drainTimeout: number
  /** Name of an invariant; the run ends as soon as it is violated. */
  readonly stopAt: string | undefined
  readonly logLevel: LogLevel.LogLevel
  /** Replaces database services, to test that the checker finds bugs in them. */
  readonly tamper: (tables: Context.Context<Tables.Stored>) => Context.Context<Tables.Stored>
}

/** The simulation as seen by handlers. */
export interface HandlerControls<R> {
  readonly pod: SimulatedPod<R>
  readonly actor: Actor
  readonly checker: HistoryChecker
  readonly isCalm: () => boolean
  readonly now: () => number
}

/** Result of a run. */
export interface RunResult {
  readonly violations: ReadonlyArray<Violation>
  readonly faults: ReadonlyArray<Fault>
  readonly coverage: Coverage
  readonly trace: Trace
  readonly jobs: ReadonlyArray<StoredJob>
  /** Milliseconds of virtual time. */
  readonly lasted: number
  readonly turns: number
}

/** Virtual start time: 2026-01-01T00:00:00Z. */
const startAt = 1_767_225_600_000

const pollMillis = 500
/** Time after which stopped pods have exited and all counts are flushed. */
const stopMillis = 30_000

const isPlanned = (faults: Plan["faults"]): faults is ReadonlyArray<Fault> => Array.isArray(faults)

/** Runs a spec to its end. */
export const play = <R>(spec: RunSpec<R>, runtime: Runtime.Runtime<R>): Effect.Effect<RunResult> =>
  Effect.suspend(() => {
    const { plan, seed } = spec
    const scheduler = new SimulationScheduler(seed, startAt)
    const now = () => scheduler.clock.now - startAt
    const trace = new Trace(now)
    const checker = new HistoryChecker(trace, () => scheduler.clock.now, spec.invariants)
    const faults = isPlanned(plan.faults)
      ? new Faults(seed, noFaults, plan.faults, startAt + faultPeriod)
      : new Faults(seed, plan.faults, undefined, startAt + faultPeriod)
    const client = scheduler.actor("client")
    let calm = false

    const main = Effect.gen(function* () {
      const tables = yield* Layer.build(Tables.layer)
      const memory = Context.get(tables, JobsMemory)
      memory.watch(checker.wrote)
      const buckets: RateLimitsMemory.Table = new Map()
      const site: Site<R> = {
        seed,
        scheduler,
        faults,
        checker,
        tables: spec.tamper(tables),
        buckets,
        runtime,
        worker: spec.worker,
        logLevel: spec.logLevel,
        slowClocks: plan.slowClocks ?? false,
        releases: spec.releases,
        handlersFor: (pod, actor) =>
          spec.handlersFor({ pod, actor, checker, isCalm: () => calm, now: () => scheduler.clock.now })
      }
      const pods = new Map(podNames(plan.pods).map((name) => [name, new SimulatedPod(name, site)]))
      const ports = Tables.over(new FaultInjector({ actor: client, scheduler, faults, checker }), site.tables, buckets)
      const planRunner = new PlanRunner({ site, ports, pods, jobs: spec.jobs })

      yield* planRunner.setUp(spec.queues)
      yield* Effect.forEach(pods.values(), (pod) => Effect.fork(pod.kept))
      const allDone = yield* planRunner.begin(plan)
      yield* Effect.sleep(faultPeriod)
      trace.note("plan", "faults end")
      calm = true
      const calmPeriod = { from: scheduler.clock.now, until: Number.POSITIVE_INFINITY }
      faults.end()
      for (const pod of pods.values()) pod.thaw()
      const worker = yield* Effect.fork(spec.hasRemote ? planRunner.workRemotely : Effect.void)
      yield* allDone
      yield* planRunner.endPauses(plan)
      // Repeated: a job that crashes its process may end the last one of a release.
      const operator = yield* Effect.fork(
        spec.releases ? Effect.repeat(planRunner.endPins, Schedule.spaced("10 seconds")) : Effect.void
      )
      yield* planRunner.endSchedules((spec.worker.schedules ?? []).map(({ name }) => name))
      checker.history.calm = calmPeriod
      const waited = yield* untilDrained(checker, spec.drainTimeout)
      yield* Fiber.interruptAll([operator, worker])
      yield* planRunner.endErasures(plan)
      calmPeriod.until = scheduler.clock.now
      yield* Effect.forEach(pods.values(), (pod) => pod.retire, { concurrency: "unbounded", discard: true })
      yield* Effect.sleep(stopMillis)
      const shown = yield* shownOf(site.tables, [...checker.history.rows.values()])
      checker.history.ending = { ...(yield* endingOf(site, [...pods.values()], waited)), ...shown }
      return yield* memory.all
    }).pipe(Effect.scoped)

    const fiber = scheduler.start(client, runtime, main)
    const isEnough = () => checker.violations.some(({ invariant }) => invariant === spec.stopAt)
    const over = Effect.ensuring(scheduler.untilOver(fiber, isEnough), scheduler.end)
    return Effect.map(over, (outcome): RunResult => {
      if (Option.isSome(outcome)) checker.conclude()
      return {
        violations: [...Option.toArray(Option.flatMap(outcome, unfinished)), ...checker.violations],
        faults: faults.injected,
        coverage: {
          operations: faults.coverage.operations,
          steps: { ...stepCounts(plan), SlowClock: slowClocksIn(trace) }
        },
        trace,
        jobs: Option.getOrElse(Option.flatMap(outcome, jobsOf), () => []),
        lasted: now(),
        turns: scheduler.turns
      }
    })
  })

const slowClocksIn = ({ events }: Trace) => events.filter(({ what }) => what === slowClock).length

type Outcome = Exit.Exit<ReadonlyArray<StoredJob>> | string

const jobsOf = (outcome: Outcome) =>
  typeof outcome === "string" ? Option.none() : Exit.getOrElse(Exit.map(outcome, Option.some), Option.none)

/** Reports a run that did not end: a deadlock, an endless loop, or a defect in the simulation. */
const unfinished = (outcome: Outcome): Option.Option<Violation> => {
  if (typeof outcome !== "string" && Exit.isSuccess(outcome)) return Option.none()
  const found = typeof outcome === "string" ? outcome : Cause.pretty(outcome.cause)
  return Option.some({ invariant: "drains", promise: "a simulation ends", found, job: undefined })
}

/** Waits until every job is finished or the time limit is reached. Returns how long it waited. */
const untilDrained = ({ history }: HistoryChecker, drainTimeout: number): Effect.Effect<number> =>
  Effect.gen(function* () {
    for (let waited = 0; ; waited += pollMillis) {
      if (waited >= drainTimeout || [...history.rows.values()].every(({ finishedAt }) => finishedAt !== undefined))
        return waited
      yield* Effect.sleep(pollMillis)
    }
  })

/** What readers see of executions, and the chunks of the streams whose step succeeded. */
const shownOf = (
  tables: Context.Context<Tables.Shared>,
  rows: ReadonlyArray<JobRow>
): Effect.Effect<Pick<Ending, "streams" | "executions">> =>
  Effect.gen(function* () {
    const { show, streams: reader } = Context.get(tables, Workflows)
    const streams = new Map<JobId, ReadonlyArray<unknown>>()
    const executions: Map<JobId, NonNullable<ReturnType<Ending["executions"]["get"]>>> = new Map()
    for (const { id } of rows.filter(isExecution)) {
      const { deferreds, heartbeats, steps, streams: written, tags, values } = yield* show(id)
      executions.set(id, { values, tags, steps, others: deferreds.length + heartbeats.length + written.length })
      for (const { name, state } of written) {
        const page = yield* reader.read({ job: id, name, generation: undefined, number: 0 })
        if (state === "done") streams.set(id, page.chunks)
      }
    }
    return { streams, executions }
  }).pipe(Effect.orDie)

const endingOf = <R>(
  site: Site<R>,
  pods: ReadonlyArray<SimulatedPod<R>>,
  waited: number
): Effect.Effect<Omit<Ending, "streams" | "executions">> =>
  Effect.gen(function* () {
    const { scheduler, tables } = site
    const stopped = pods.flatMap((pod) => pod.stopped)
    const live = new Set((yield* Context.get(tables, Pods).live(Duration.days(1))).map(({ id }) => id))
    const leader = yield* Context.get(tables, Leadership).leader
    const leftovers = stopped.flatMap(({ actor, isAnnounced, id }) => [
      ...(scheduler.clock.sleepers(actor.name) > 0
        ? [`${actor.name} has stopped, but one of its fibers still sleeps`]
        : []),
      ...(isAnnounced && id !== undefined && live.has(id)
        ? [`${actor.name} has stopped, but is still listed as live`]
        : []),
      ...(isAnnounced && leader._tag === "Some" && leader.value.pod === id
        ? [`${actor.name} has stopped, but is still the leader`]
        : [])
    ])
    const range = { from: startAt - 3_600_000, to: scheduler.clock.now + 3_600_000 }
    const listed = yield* Context.get(tables, Storage).list(Workload.workspace)
    const inbox = new Set(listed.map(({ id }) => id))
    return { waited, leftovers, inbox, charted: sum(yield* Context.get(tables, MinuteBuckets).totals(range)) }
  }).pipe(Effect.orDie)
