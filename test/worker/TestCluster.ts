import { Context, Duration, Effect, Exit, Layer, Logger, LogLevel, Option, Scope } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { Leadership } from "../../src/cluster/Leadership.js"
import { Pods } from "../../src/cluster/Pods.js"
import { Shares } from "../../src/cluster/Shares.js"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { Hints } from "../../src/database/Hints.js"
import type { Handler } from "../../src/handlers/Handler.js"
import * as NoopEcho from "../../src/handlers/NoopEcho.js"
import { MetricsConfig } from "../../src/history/MetricsConfig.js"
import type { Operations } from "../../src/queue/admin/Operations.js"
import type { Batches } from "../../src/queue/batch/Batches.js"
import type { Events } from "../../src/queue/events/Events.js"
import { DirectHandoff } from "../../src/queue/handoff/DirectHandoff.js"
import type { JobAdmin } from "../../src/queue/JobAdmin.js"
import type { Kinds } from "../../src/queue/Kinds.js"
import type { JobLogs } from "../../src/queue/logs/JobLogs.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import type { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import type { Routes } from "../../src/queue/settings/Routes.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import type { RateLimits } from "../../src/rate-limits/RateLimits.js"
import * as RateLimitsMemory from "../../src/rate-limits/RateLimitsMemory.js"
import { SchedulerConfig } from "../../src/schedule/SchedulerConfig.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import * as SchedulesMemory from "../../src/schedule/SchedulesMemory.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import type { Storage } from "../../src/uploads/Storage.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import { SweeperConfig } from "../../src/uploads/Sweeper.js"
import { UploadsConfig } from "../../src/uploads/UploadsConfig.js"
import { ClusterConfig } from "../../src/worker/ClusterConfig.js"
import * as PodLoops from "../../src/worker/PodLoops.js"
import * as Worker from "../../src/worker/Worker.js"
import { WorkerConfig } from "../../src/worker/WorkerConfig.js"
import * as StepClock from "../support/StepClock.js"

// Several pods on shared memory tables and a stepping clock, with the intervals of a real cluster. A pod can be cut off
// from the database for a while or for good, as by kill -9.

export type Ports =
  | Queue
  | Queues
  | JobAdmin
  | JobSearch
  | JobLogs
  | Operations
  | Batches
  | Events
  | Kinds
  | Transactions
  | Wakeups.Wakeups
  | DirectHandoff
  | Hints
  | Pods
  | Shares
  | Leadership
  | Routes
  | Schedules
  | RateLimits
  | Storage

/** The database that all pods of a test share. */
export const layer: Layer.Layer<Ports> = Layer.mergeAll(
  SchedulesMemory.layer,
  ClusterMemory.layer,
  RateLimitsMemory.layer
).pipe(
  Layer.provideMerge(QueueMemory.layer),
  Layer.provideMerge(Layer.merge(Wakeups.layer, DirectHandoff.layer)),
  Layer.provideMerge(Transactions.layerMemory),
  Layer.provideMerge(Layer.provide(StorageMemory.layer, UploadsConfig.layerDefault)),
  Layer.provideMerge(StepClock.layer)
)

export interface CampPod {
  readonly worker: typeof Worker.Worker.Service
  readonly stop: Effect.Effect<void>
  /** Whether the pod can reach the database. */
  readonly connected: (value: boolean) => void
  readonly metrics: Effect.Effect<string>
  /** Calls per method of a port. */
  readonly calls: Map<string, number>
}

export interface CampOptions {
  readonly queues?: ReadonlyArray<string>
  readonly handlers?: ReadonlyArray<Handler<never>>
  readonly slots?: number
  /** Whether the pod receives no notifications, as behind a pooler. */
  readonly pollingOnly?: boolean
  readonly config?: Partial<typeof ClusterConfig.Service>
  /** Receives the pod's log, which is discarded otherwise. */
  readonly log?: (line: string) => void
  /** Overrides this pod's view of the settings. */
  readonly settings?: (queues: typeof Queues.Service) => Partial<typeof Queues.Service>
}

/** Makes every method of a port fail while the pod is cut off from the database. `onCall` is called for each. */
const reachable = <Id, Service extends object>(
  tag: Context.Tag<Id, Service>,
  port: Service,
  line: { readonly isCut: () => boolean; readonly onCall: (method: string) => void }
) => {
  const away = new DatabaseUnavailable({ detail: "away", nothingWritten: true })
  const guard = (method: string, answer: unknown) =>
    Effect.isEffect(answer)
      ? Effect.suspend(() => {
          line.onCall(method)
          return line.isCut() ? away : answer
        })
      : answer
  const methods = Object.entries(port).map(([name, member]) => [
    name,
    typeof member === "function"
      ? (...args: ReadonlyArray<unknown>) => guard(name, member(...args))
      : guard(name, member)
  ])
  return Layer.succeed(tag, Object.fromEntries(methods) as Service)
}

const usual: typeof ClusterConfig.Service = {
  workerPrefix: Option.none(),
  workerVersion: Option.none(),
  workerId: Option.none(),
  podHeartbeat: Duration.seconds(1),
  staleAfter: Duration.seconds(60),
  reaperInterval: Duration.seconds(15),
  rebalanceInterval: Duration.seconds(5),
  cleanupInterval: Duration.minutes(5),
  doneRetention: Duration.hours(168),
  eventRetention: Duration.hours(168),
  stuckTimeout: Duration.minutes(30),
  janitorInterval: Duration.hours(1),
  lease: Duration.seconds(15)
}

/** Starts a pod; closing the Scope stops it. */
export const hire = (options: CampOptions = {}): Effect.Effect<CampPod, never, Ports | Scope.Scope> =>
  Effect.gen(function* () {
    const context = yield* Effect.context<Ports>()
    let away = false
    const calls = new Map<string, number>()
    const line = {
      isCut: () => away,
      onCall: (method: string) => void calls.set(method, (calls.get(method) ?? 0) + 1)
    }
    const queues = Context.get(context, Queues)
    const ports = Layer.mergeAll(
      reachable(Queue, Context.get(context, Queue), line),
      reachable(Pods, Context.get(context, Pods), line),
      reachable(Shares, Context.get(context, Shares), line),
      reachable(Leadership, Context.get(context, Leadership), line),
      reachable(Schedules, Context.get(context, Schedules), line),
      reachable(Queues, { ...queues, ...options.settings?.(queues) }, line),
      RateLimitsMemory.layer
    )
    const ignore = () => Effect.void
    const pollingOnly = {
      sender: "",
      publish: ignore,
      tell: () => {},
      subscribe: ignore,
      connected: Effect.succeed(false)
    }
    const hints = Layer.succeed(Hints, options.pollingOnly === true ? pollingOnly : Context.get(context, Hints))
    const configs = Layer.mergeAll(
      Layer.succeed(WorkerConfig, {
        queues: [],
        slots: options.slots ?? 64,
        poll: Duration.seconds(2),
        heartbeat: Duration.seconds(10),
        grace: Duration.seconds(25)
      }),
      Layer.succeed(ClusterConfig, { ...usual, ...options.config }),
      Layer.succeed(SchedulerConfig, { poll: Duration.seconds(5), onTime: Duration.seconds(20) }),
      Layer.succeed(MetricsConfig, {
        flush: Duration.seconds(2),
        retention: Duration.days(30),
        oldTransaction: Duration.minutes(5)
      }),
      Layer.succeed(SweeperConfig, { ackRetention: Duration.hours(1), interval: Duration.hours(1) })
    )
    const scope = yield* Scope.make()
    const { log } = options
    const logged =
      log === undefined
        ? Logger.withMinimumLogLevel(LogLevel.None)
        : Effect.provide(
            Logger.replace(
              Logger.defaultLogger,
              Logger.make(({ message }) => log(String(message)))
            )
          )
    const services = yield* Worker.layer({
      handlers: options.handlers ?? [NoopEcho.handler],
      queues: options.queues ?? ["default"],
      loops: PodLoops.inMemory
    }).pipe(
      Layer.provideMerge(Metrics.layer),
      Layer.provide(Layer.mergeAll(ports, hints, configs)),
      Layer.orDie,
      Layer.buildWithScope(scope),
      logged
    )
    // A test may end while a pod is cut off and its jobs still run. Waiting for them would hang, because the clock no
    // longer advances.
    yield* Effect.addFinalizer(() =>
      Effect.gen(function* () {
        away = true
        const closing = yield* Effect.forkDaemon(Scope.close(scope, Exit.void))
        for (let step = 0; step < 12 && Option.isNone(yield* closing.poll); step += 1) {
          yield* StepClock.advance("5 seconds")
        }
      })
    )
    return {
      worker: Context.get(services, Worker.Worker),
      stop: Scope.close(scope, Exit.void),
      connected: (value) => {
        away = !value
      },
      metrics: Context.get(services, Metrics).render,
      calls
    }
  })

/** Slots of a queue per live pod, by pod id. */
export const slots = (queue = "default"): Effect.Effect<ReadonlyArray<number>, unknown, Pods> =>
  Effect.gen(function* () {
    const pods = yield* Pods
    const live = yield* pods.live(Duration.seconds(15))
    return live.map((pod) => pod.slots.find((each) => each.queue === queue)?.have ?? 0)
  })
