import { Context, Effect, ExecutionStrategy, Layer, Option, Schema, Scope } from "effect"
import type { Leadership } from "../cluster/Leadership.js"
import type { Pods, Releases } from "../cluster/Pods.js"
import type { Shares } from "../cluster/Shares.js"
import type { PodId } from "../core/Ids.js"
import { patiently } from "../database/Database.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Signals } from "../database/Signals.js"
import { type Handler, opened } from "../handlers/Handler.js"
import * as Registry from "../handlers/Registry.js"
import type { DeclaredLimit, InvalidLimit } from "../limits/Limit.js"
import { RateLimits } from "../limits/RateLimits.js"
import type { Measures } from "../measures/Measures.js"
import type { Operations } from "../queue/admin/Operations.js"
import type { Batches } from "../queue/batch/Batches.js"
import { isQueueName } from "../queue/enqueue/NewJob.js"
import type { DirectHandoff } from "../queue/handoff/DirectHandoff.js"
import { Kinds } from "../queue/Kinds.js"
import { type ClaimedJob, Queue } from "../queue/Queue.js"
import type { JobSearch } from "../queue/search/JobSearch.js"
import { Queues } from "../queue/settings/QueueSettings.js"
import { type DeclaredRoutes, type InvalidRoute, Routes } from "../queue/settings/Routes.js"
import type { Transactions } from "../queue/Transactions.js"
import type { Wakeups } from "../queue/Wakeups.js"
import * as Schedule from "../schedule/Schedule.js"
import type { InvalidSchedule } from "../schedule/ScheduleErrors.js"
import { Schedules } from "../schedule/Schedules.js"
import type { Metrics } from "../telemetry/Metrics.js"
import type { Storage } from "../uploads/Storage.js"
import { ClusterConfig } from "./ClusterConfig.js"
import type { CrewConfig } from "./CrewConfig.js"
import * as Gauges from "./Gauges.js"
import { runLoop } from "./LoopRunner.js"
import * as BatchCloser from "./loops/BatchCloser.js"
import * as Cleanup from "./loops/Cleanup.js"
import * as DuePoller from "./loops/DuePoller.js"
import * as Janitor from "./loops/Janitor.js"
import * as JobHeartbeat from "./loops/JobHeartbeat.js"
import { Leader } from "./loops/Leader.js"
import * as MetricsFlush from "./loops/MetricsFlush.js"
import * as OperationRunner from "./loops/OperationRunner.js"
import * as PodHeartbeat from "./loops/PodHeartbeat.js"
import * as Reaper from "./loops/Reaper.js"
import * as Rebalancer from "./loops/Rebalancer.js"
import type { SchedulerConfig } from "./loops/SchedulerConfig.js"
import * as SchedulerLoop from "./loops/SchedulerLoop.js"
import * as SlotReconciler from "./loops/SlotReconciler.js"
import * as Sweeper from "./loops/Sweeper.js"
import type { MetricsConfig } from "./MetricsConfig.js"
import { Boot, Pod } from "./Pod.js"
import * as CodeRelease from "./worker/CodeRelease.js"
import { Deadlines } from "./worker/Deadlines.js"
import { Finalizer } from "./worker/Finalizer.js"
import * as Supervisor from "./worker/Supervisor.js"
import { Supervisors } from "./worker/Supervisor.js"

export class NoQueues extends Schema.TaggedError<NoQueues>()("NoQueues", {}) {
  override get message(): string {
    return 'No queue is declared. Pass `queues: ["default"]` in code, or set NIGHTSHIFT_QUEUES.'
  }
}

export class BadQueueName extends Schema.TaggedError<BadQueueName>()("BadQueueName", { name: Schema.String }) {
  override get message(): string {
    return `"${this.name}" is not a valid queue name: names must be 1 to 64 letters, digits, _, . or -.`
  }
}

/** The worker side of this pod. */
export class Crew extends Context.Tag("nightshift/crew/Crew")<
  Crew,
  {
    readonly pod: PodId
    readonly queues: ReadonlyArray<string>
    /** The jobs that currently run on this pod. */
    readonly running: () => ReadonlyArray<ClaimedJob>
    /** Whether this pod holds no job. */
    readonly isIdle: () => boolean
  }
>() {}

export interface CrewOptions<R> {
  readonly handlers: ReadonlyArray<Handler<R>>
  /** Queues to serve. A pod that serves "none" runs no jobs, but takes part in the cluster and can lead it. */
  readonly queues: ReadonlyArray<string> | "none"
  /** Queues by kind prefix, for kinds without a queue. */
  readonly routes?: DeclaredRoutes | undefined
  /** Recurring jobs to declare to the cluster. */
  readonly schedules?: ReadonlyArray<Schedule.Schedule> | undefined
  /** Rate limits that the handlers use. */
  readonly limits?: ReadonlyArray<DeclaredLimit> | undefined
}

type QueuePorts =
  | Queue
  | Queues
  | JobSearch
  | Operations
  | Batches
  | Kinds
  | Routes
  | Transactions
  | Wakeups
  | DirectHandoff
type Ports = QueuePorts | RateLimits | Signals | Pods | Shares | Leadership | Schedules | Measures | Storage
type Configs =
  | CrewConfig
  | ClusterConfig
  | Janitor.JanitorConfig
  | SchedulerConfig
  | Sweeper.SweeperConfig
  | MetricsConfig
type Needs = Ports | Configs | Metrics

/** Cleanup steps of the leader. */
const forgotten = Effect.all([Cleanup.finishedJobs, Cleanup.closedBatches, MetricsFlush.purge])

/** Starts the loops and supervisors in this order. Closing the Scope stops them in reverse order. */
const hire = <R>(queues: ReadonlyArray<string>, registry: Registry.Registry<R>, releases: Releases) =>
  Effect.gen(function* () {
    const supervisors = yield* Supervisors
    yield* Gauges.watchQueues(queues)
    yield* Gauges.watchUploads
    yield* runLoop(yield* Janitor.make)
    yield* runLoop(yield* Sweeper.make)
    yield* runLoop(yield* Reaper.make(registry))
    const onHeld = yield* JobHeartbeat.start
    yield* JobHeartbeat.listenForCancels
    yield* OperationRunner.start
    const duePoller = yield* DuePoller.start
    // Closes the supervisors in parallel, so that all queues drain within one grace period.
    const shift = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.parallel)
    const podHeartbeat = yield* PodHeartbeat.PodHeartbeat
    for (const name of queues) {
      const onShort = () => duePoller.ranShort(name)
      const releasesOf = (kind: string) =>
        CodeRelease.of(kind, releases, podHeartbeat.assignment().otherReleases.get(name))
      const supervisor = Supervisor.start(name, registry, { onShort, onHeld, releasesOf })
      supervisors.set(name, yield* Scope.extend(supervisor, shift))
    }
    yield* SlotReconciler.start
    // Built after the supervisors, so it closes first: leadership is released before the jobs drain.
    yield* Effect.provideService(leaderLoops, Leader, yield* Leader.make)
    yield* Effect.addFinalizer(() => {
      for (const supervisor of supervisors.values()) supervisor.stopClaiming()
      return podHeartbeat.drain
    })
    const { id } = yield* Pod
    yield* Effect.logInfo(`pod ${id} started: serving ${queues.length === 0 ? "no queue" : queues.join(", ")}`)
    const running = () => [...supervisors.values()].flatMap((supervisor) => supervisor.running())
    return {
      pod: id,
      queues,
      running,
      isIdle: () => [...supervisors.values()].every((supervisor) => supervisor.isIdle())
    }
  })

/** Loops that run only on the leader. */
const leaderLoops = Effect.gen(function* () {
  const leader = yield* Leader
  yield* leader.runLoop(yield* Rebalancer.make)
  yield* leader.runLoop(yield* Cleanup.make(yield* forgotten))
  yield* leader.runLoop(yield* SchedulerLoop.make)
  yield* leader.runLoop(yield* BatchCloser.make)
})

/** Builds what the crew shares, in this order, and starts it. Plain effects: a layer for each would double the cost. */
const staffed = <R>(queues: ReadonlyArray<string>, registry: Registry.Registry<R>) =>
  Effect.gen(function* () {
    const pod = Context.make(Pod, yield* Pod.make).pipe(Context.add(Supervisors, new Map()))
    const { workerVersion } = yield* ClusterConfig
    const releases = Registry.releases(registry, Option.getOrUndefined(workerVersion))
    const heartbeat = yield* Effect.provide(PodHeartbeat.make({ queues, kinds: [...registry.keys()], releases }), pod)
    const shared = pod.pipe(
      Context.add(PodHeartbeat.PodHeartbeat, heartbeat),
      Context.add(Finalizer, yield* Finalizer.make),
      Context.add(Deadlines, yield* Deadlines.make)
    )
    return yield* Effect.provide(hire(queues, registry, releases), shared)
  })

const checked = (names: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<string>, NoQueues | BadQueueName> =>
  Effect.gen(function* () {
    const queues = [...new Set(names)]
    if (queues.length === 0) return yield* new NoQueues()
    const bad = queues.find((name) => !isQueueName(name))
    return bad === undefined ? queues : yield* new BadQueueName({ name: bad })
  })

/** Registers kinds and queues before the first heartbeat makes the pod visible. */
const declare = <R>(queues: ReadonlyArray<string>, registry: Registry.Registry<R>) =>
  Effect.gen(function* () {
    yield* Effect.flatMap(Kinds, (kinds) => kinds.register(Registry.registeredKinds(registry)))
    yield* Effect.flatMap(Queues, (settings) => settings.declare(queues))
  })

/** Declares the schedules. Their kinds must already be registered. */
const declareSchedules = (declared: ReadonlyArray<Schedule.Schedule>) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const written = yield* schedules.declare(yield* Schedule.definitionsOf(declared))
    if (written.length > 0) yield* Effect.logInfo(`schedules declared: ${written.join(", ")}`)
  })

/** Returns jobs of processes that ended long ago before the first claim: watching their heartbeats would take minutes. */
const recoverAbandoned = Effect.gen(function* () {
  const queue = yield* Queue
  const { stuckTimeout } = yield* Janitor.JanitorConfig
  const { cancelled, poisoned, rescued } = yield* queue.recoverAbandoned(stuckTimeout)
  if (rescued + poisoned + cancelled > 0) {
    yield* Effect.logInfo(
      `jobs of processes that ended: rescued=${rescued} poisoned=${poisoned} cancelled=${cancelled}`
    )
  }
})

/** Runs a pod. Its row exists from before the first claim until after the last result is written. */
export const layer = <R>(
  options: CrewOptions<R>
): Layer.Layer<
  Crew,
  NoQueues | BadQueueName | InvalidRoute | InvalidLimit | InvalidSchedule | DatabaseError,
  R | Needs
> =>
  Layer.scoped(
    Crew,
    Effect.gen(function* () {
      const queues = options.queues === "none" ? [] : yield* checked(options.queues)
      // Opened first, so closed last: resources of a handler must outlive its jobs.
      const registry = Registry.make(yield* Effect.forEach(options.handlers, (handler) => opened(handler)))
      yield* patiently(
        Effect.gen(function* () {
          yield* declare(queues, registry)
          yield* Effect.flatMap(Routes, (routes) => routes.register(options.routes ?? {}))
          yield* Effect.flatMap(RateLimits, (limits) => limits.register(options.limits ?? []))
          yield* declareSchedules(options.schedules ?? [])
        })
      )
      yield* recoverAbandoned
      return yield* staffed(queues, registry)
    })
  ).pipe(Layer.provide(Boot.layer))
