import { Context, Effect, ExecutionStrategy, Layer, Option, Schema, Scope } from "effect"
import type { Leadership } from "../cluster/Leadership.js"
import type { Pods, Releases } from "../cluster/Pods.js"
import type { Shares } from "../cluster/Shares.js"
import { Boot } from "../core/Boot.js"
import type { PodId } from "../core/Ids.js"
import type { PodLoops } from "../core/Loop.js"
import { plainNameRule } from "../core/Storable.js"
import { patiently } from "../database/Database.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Hints } from "../database/Hints.js"
import { type Handler, opened } from "../handlers/Handler.js"
import * as Registry from "../handlers/Registry.js"
import { Events } from "../queue/events/Events.js"
import type { DirectHandoff } from "../queue/handoff/DirectHandoff.js"
import { Kinds } from "../queue/Kinds.js"
import type { JobLogs } from "../queue/logs/JobLogs.js"
import { isQueueName } from "../queue/NewJob.js"
import { type ClaimedJob, Queue } from "../queue/Queue.js"
import type { DeclaredQueue, DeclaredQueues } from "../queue/settings/QueueDeclaration.js"
import * as QueueDeclaration from "../queue/settings/QueueDeclaration.js"
import type { InvalidSetting, Queues } from "../queue/settings/QueueSettings.js"
import { type DeclaredRoutes, type InvalidRoute, Routes } from "../queue/settings/Routes.js"
import type { Transactions } from "../queue/Transactions.js"
import type { Wakeups } from "../queue/Wakeups.js"
import type { DeclaredLimit, InvalidLimit } from "../rate-limits/Limit.js"
import { RateLimits } from "../rate-limits/RateLimits.js"
import * as Schedule from "../schedule/Schedule.js"
import type { InvalidSchedule } from "../schedule/ScheduleErrors.js"
import { Schedules } from "../schedule/Schedules.js"
import { processAnnotation } from "../telemetry/LogLine.js"
import { runLoop } from "../telemetry/LoopRunner.js"
import type { Metrics } from "../telemetry/Metrics.js"
import { ClusterConfig } from "./ClusterConfig.js"
import * as Gauges from "./Gauges.js"
import * as DuePoller from "./loops/DuePoller.js"
import * as JobHeartbeat from "./loops/JobHeartbeat.js"
import { Leader } from "./loops/Leader.js"
import * as LogFlush from "./loops/LogFlush.js"
import * as PodHeartbeat from "./loops/PodHeartbeat.js"
import * as Reaper from "./loops/Reaper.js"
import * as Rebalancer from "./loops/Rebalancer.js"
import * as Rescuer from "./loops/Rescuer.js"
import * as SlotReconciler from "./loops/SlotReconciler.js"
import { Pod } from "./Pod.js"
import { AttemptLogs } from "./slots/AttemptLogs.js"
import * as CodeRelease from "./slots/CodeRelease.js"
import { Deadlines } from "./slots/Deadlines.js"
import { Finalizer } from "./slots/Finalizer.js"
import * as Supervisor from "./slots/Supervisor.js"
import { Supervisors } from "./slots/Supervisor.js"
import type { WorkerConfig } from "./WorkerConfig.js"

export class NoQueues extends Schema.TaggedError<NoQueues>()("NoQueues", {}) {
  override get message(): string {
    return 'No queue is declared. Pass `queues: ["default"]` in code, or set NIGHTSHIFT_QUEUES.'
  }
}

export class BadQueueName extends Schema.TaggedError<BadQueueName>()("BadQueueName", { name: Schema.String }) {
  override get message(): string {
    return `"${this.name}" is not a valid queue name: names ${plainNameRule}.`
  }
}

/** The worker side of this pod. */
export class Worker extends Context.Tag("nightshift/worker/Worker")<
  Worker,
  {
    readonly pod: PodId
    readonly queues: ReadonlyArray<string>
    /** The jobs that currently run on this pod. */
    readonly running: () => ReadonlyArray<ClaimedJob>
    /** Whether this pod holds no job. */
    readonly isIdle: () => boolean
  }
>() {}

export interface WorkerOptions<R, L = never> {
  readonly handlers: ReadonlyArray<Handler<R>>
  /** Queues to serve. A process that serves "none" runs no jobs, but takes part in the cluster and can lead it. */
  readonly queues: DeclaredQueues | "none"
  /** Queues by kind prefix, for kinds without a queue. */
  readonly routes?: DeclaredRoutes | undefined
  /** Recurring jobs to declare to the cluster. */
  readonly schedules?: ReadonlyArray<Schedule.Schedule> | undefined
  /** Rate limits that the handlers use. */
  readonly limits?: ReadonlyArray<DeclaredLimit> | undefined
  /** The loops of the features. The worker itself adds the loops of the jobs and of the cluster. */
  readonly loops: PodLoops<L>
}

type QueuePorts = Queue | Queues | Kinds | Events | JobLogs | Routes | Transactions | Wakeups | DirectHandoff
type Ports = QueuePorts | RateLimits | Hints | Pods | Shares | Leadership | Schedules
type Configs = WorkerConfig | ClusterConfig
type Needs = Ports | Configs | Metrics

interface Parts<R, L> {
  readonly queues: ReadonlyArray<string>
  /** The number of workers that queues have in this process, if code declares it. */
  readonly workers: Readonly<Record<string, number | undefined>>
  readonly registry: Registry.Registry<R>
  readonly releases: Releases
  readonly features: PodLoops<L>
}

/** Starts the loops and supervisors in this order. Closing the Scope stops them in reverse order. */
const startAll = <R, L>({ features, queues, registry, releases, workers }: Parts<R, L>) =>
  Effect.gen(function* () {
    const supervisors = yield* Supervisors
    yield* Gauges.watchQueues(queues)
    yield* runLoop(yield* Reaper.make(registry))
    yield* runLoop(yield* Rescuer.make)
    const loops = yield* features
    for (const loop of loops) if (typeof loop !== "function") yield* runLoop(loop)
    const onHeld = yield* JobHeartbeat.start
    yield* JobHeartbeat.listenForCancels
    yield* LogFlush.start
    const duePoller = yield* DuePoller.start
    // Closes the supervisors in parallel, so that all queues drain within one grace period.
    const queueScope = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.parallel)
    const podHeartbeat = yield* PodHeartbeat.PodHeartbeat
    for (const name of queues) {
      const onShort = () => duePoller.ranShort(name)
      const releasesOf = (kind: string) =>
        CodeRelease.of(kind, releases, podHeartbeat.assignment().otherReleases.get(name))
      const pinned = CodeRelease.pinned(Registry.pinnedKinds(registry), releasesOf)
      const supervisor = Supervisor.start(name, registry, { onShort, onHeld, releasesOf, pinned })
      supervisors.set(name, yield* Scope.extend(supervisor, queueScope))
    }
    yield* SlotReconciler.start(workers)
    // Built after the supervisors, so it closes first: leadership is released before the jobs drain.
    const leader = yield* Leader.make
    yield* leader.runLoop(yield* Effect.provideService(Rebalancer.make, Leader, leader))
    for (const loop of loops) if (typeof loop === "function") yield* leader.runLoop(loop)
    yield* Effect.addFinalizer(() => {
      for (const supervisor of supervisors.values()) supervisor.stopClaiming()
      return podHeartbeat.drain
    })
    const { id } = yield* Pod
    yield* Effect.logInfo(`process ${id} started: serving ${queues.length === 0 ? "no queue" : queues.join(", ")}`)
    const running = () => [...supervisors.values()].flatMap((supervisor) => supervisor.running())
    return {
      pod: id,
      queues,
      running,
      isIdle: () => [...supervisors.values()].every((supervisor) => supervisor.isIdle())
    }
  })

/** Builds what the worker shares, in this order, and starts it. Plain effects: a layer for each would double the cost. */
const assembled = <R, L>({ features, queues, registry, workers }: Omit<Parts<R, L>, "releases">) =>
  Effect.gen(function* () {
    const pod = Context.make(Pod, yield* Pod.make).pipe(Context.add(Supervisors, new Map()))
    const { workerVersion } = yield* ClusterConfig
    const releases = Registry.releases(registry, Option.getOrUndefined(workerVersion))
    const heartbeat = yield* Effect.provide(PodHeartbeat.make({ queues, kinds: [...registry.keys()], releases }), pod)
    const shared = pod.pipe(
      Context.add(PodHeartbeat.PodHeartbeat, heartbeat),
      Context.add(Finalizer, yield* Finalizer.make),
      Context.add(AttemptLogs, yield* AttemptLogs.make),
      Context.add(Deadlines, yield* Deadlines.make)
    )
    const { id } = Context.get(pod, Pod)
    return yield* Effect.provide(startAll({ features, queues, registry, releases, workers }), shared).pipe(
      Effect.annotateLogs(processAnnotation, id)
    )
  })

const checked = (
  given: DeclaredQueues
): Effect.Effect<ReadonlyArray<DeclaredQueue>, NoQueues | BadQueueName | InvalidSetting> =>
  Effect.gen(function* () {
    const names = QueueDeclaration.namesOf(given)
    if (names.length === 0) return yield* new NoQueues()
    const bad = names.find((name) => !isQueueName(name))
    return bad === undefined ? yield* QueueDeclaration.read(given) : yield* new BadQueueName({ name: bad })
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
  const { stuckTimeout } = yield* ClusterConfig
  const { cancelled, poisoned, rescued } = yield* queue.recoverAbandoned(stuckTimeout)
  if (rescued + poisoned + cancelled > 0) {
    yield* Effect.logInfo(
      `jobs of processes that ended: rescued=${rescued} poisoned=${poisoned} cancelled=${cancelled}`
    )
  }
})

/** Runs a pod. Its row exists from before the first claim until after the last result is written. */
export const layer = <R, L>(
  options: WorkerOptions<R, L>
): Layer.Layer<
  Worker,
  NoQueues | BadQueueName | InvalidSetting | InvalidRoute | InvalidLimit | InvalidSchedule | DatabaseError,
  R | L | Needs
> =>
  Layer.scoped(
    Worker,
    Effect.gen(function* () {
      const declared = options.queues === "none" ? [] : yield* checked(options.queues)
      const queues = declared.map(({ name }) => name)
      const workers = Object.fromEntries(declared.map(({ name, workers }) => [name, workers]))
      // Opened first, so closed last: resources of a handler must outlive its jobs.
      const registry = Registry.make(yield* Effect.forEach(options.handlers, (handler) => opened(handler)))
      const declareQueues = yield* patiently(QueueDeclaration.plan(declared))
      // Before the first heartbeat makes the pod visible.
      yield* patiently(
        Effect.gen(function* () {
          yield* Effect.flatMap(Kinds, (kinds) => kinds.register(Registry.registeredKinds(registry)))
          const subscriptions = Registry.subscriptions(registry)
          yield* Effect.flatMap(Events, (events) => events.subscribe([...registry.keys()], subscriptions))
          yield* declareQueues
          yield* Effect.flatMap(Routes, (routes) => routes.register(options.routes ?? {}))
          yield* Effect.flatMap(RateLimits, (limits) => limits.register(options.limits ?? []))
          yield* declareSchedules(options.schedules ?? [])
        })
      )
      yield* recoverAbandoned
      return yield* assembled({ queues, workers, registry, features: options.loops })
    })
  ).pipe(Layer.provide(Boot.layer))
