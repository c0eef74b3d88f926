import * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Clock, ConfigProvider, Context, Effect, Layer, Option, Scope } from "effect"
import * as Engine from "../../../src/client/Engine.js"
import { ofRecipes } from "../../../src/client/Handlers.js"
import type { Handler } from "../../../src/client/Recipe.js"
import * as Shift from "../../../src/client/Shift.js"
import { LockTable } from "../../../src/cluster/ClusterMemory.js"
import type { PodId } from "../../../src/core/Ids.js"
import { Lifecycle } from "../../../src/core/Lifecycle.js"
import { Bots } from "../../../src/gateway/Bots.js"
import { Deliveries } from "../../../src/gateway/Deliveries.js"
import { DatabaseHealth } from "../../../src/history/DatabaseHealth.js"
import { MetricsConfig } from "../../../src/history/MetricsConfig.js"
import * as MetricsFlush from "../../../src/history/MetricsFlush.js"
import { AccessConfig } from "../../../src/http/access/AccessConfig.js"
import { type Identify, reasonOf } from "../../../src/http/access/Auth.js"
import { ServerConfig } from "../../../src/http/ServerConfig.js"
import { ApiApp } from "../../../src/http/server/ApiApp.js"
import { withWebBody } from "../../../src/http/server/WebBody.js"
import { DirectHandoff } from "../../../src/queue/handoff/DirectHandoff.js"
import type { DeclaredQueues } from "../../../src/queue/settings/QueueLimits.js"
import type { DeclaredLimit } from "../../../src/rate-limits/LimitOptions.js"
import type { Schedule } from "../../../src/schedule/ScheduleSettings.js"
import { EventLoop } from "../../../src/telemetry/EventLoop.js"
import * as Logging from "../../../src/telemetry/Logging.js"
import { Metrics } from "../../../src/telemetry/Metrics.js"
import * as Disconnectable from "../../../src/testing/Disconnectable.js"
import { portsOf } from "../../../src/testing/TestPorts.js"
import { ClusterConfig } from "../../../src/worker/ClusterConfig.js"
import * as PodLoops from "../../../src/worker/PodLoops.js"
import { RemoteWorkers } from "../../../src/worker/remote/RemoteWorkers.js"
import * as Worker from "../../../src/worker/Worker.js"
import { WorkerConfig } from "../../../src/worker/WorkerConfig.js"
import * as AccessMemory from "../../../test/support/AccessMemory.js"
import * as MeasuresMemory from "../../../test/support/MeasuresMemory.js"
import { RunningClock } from "./RunningClock.js"

// A cluster in one page: the tables are in memory, each worker process has its own connection, clock and copy of the program, and
// the HTTP API answers requests of the page.

/** What a program exports. */
export interface Program {
  readonly handlers: ReadonlyArray<Handler>
  readonly queues?: DeclaredQueues
  readonly schedules?: ReadonlyArray<Schedule>
  readonly limits?: ReadonlyArray<DeclaredLimit>
}

/** `setTimeout` of `node:timers/promises`. */
type Sleep = (millis: number, value?: unknown, options?: { readonly signal?: AbortSignal }) => Promise<unknown>

/** Loads a copy of the program. `sleep` is the timer of the process that runs it. */
export type Load<P extends Program> = (sleep: Sleep) => P

/** A job that a process runs. */
export interface RunningJob {
  readonly id: string
  readonly kind: string
  readonly attempt: number
}

/** A worker process. */
export interface Process {
  /** The label that Mission Control shows. */
  readonly name: string
  readonly running: () => ReadonlyArray<RunningJob>
  /** Like kill -9: the process does nothing any more, and the lock that shows that it lives is free. */
  readonly kill: () => void
}

/** Settings of the processes. A short lease lets new processes help others sooner. */
const settings = {
  NIGHTSHIFT_LEASE: "3s",
  NIGHTSHIFT_POD_HEARTBEAT: "1s",
  NIGHTSHIFT_WORKER_PREFIX: "page",
  QUEUE_HEARTBEAT: "1s",
  QUEUE_STALE_AFTER: "10s",
  QUEUE_REAPER_INTERVAL: "5s"
}

const configured = (more: Readonly<Record<string, string>> = {}) =>
  Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries({ ...settings, ...more }))))

/** Mission Control shows what jobs log. The console of the browser gets warnings. */
const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error }

const counting = MetricsFlush.layer.pipe(Layer.provide(Layer.orDie(MetricsConfig.layer)))

/** Mission Control shows the size of an empty database. */
const measures = Layer.map(MeasuresMemory.layer, (context) =>
  Context.add(context, DatabaseHealth, {
    ...Context.get(context, DatabaseHealth),
    check: Effect.map(Clock.currentTimeMillis, (at) => ({
      at,
      sizeBytes: 0,
      jobBytes: 0,
      jobLiveTuples: 0,
      jobDeadTuples: 0,
      oldestTransactionSeconds: 0,
      connections: 0,
      blockers: []
    }))
  })
)

/** There is no listener and no token: the visitor of the page may do everything. */
const server = Layer.succeed(ServerConfig, {
  host: "",
  port: 0,
  adminToken: Option.none(),
  viewerToken: Option.none(),
  workerTokens: Option.none(),
  metricsToken: Option.none(),
  trustProxy: ""
})

const visitor: Identify = Effect.map(HttpServerRequest.HttpServerRequest, (request) => ({
  who: "you",
  role: "admin",
  until: undefined,
  session: undefined,
  reason: reasonOf(request)
}))

const control = ApiApp.layerFor(visitor).pipe(
  Layer.provide(RemoteWorkers.layer),
  Layer.provide([
    server,
    AccessConfig.layer,
    ClusterConfig.layer,
    WorkerConfig.layer,
    Bots.layerNone,
    Deliveries.layer
  ]),
  Layer.provide([AccessMemory.layer, AccessMemory.tokens, Lifecycle.layer])
)

/** Starts a cluster without processes. */
export const start = async <P extends Program>(load: Load<P>) => {
  const clock = new RunningClock()
  const sleepOf =
    (owner: string): Sleep =>
    (millis, value, { signal } = {}) =>
      new Promise((resolve, reject) => {
        clock.steps.after(owner, millis, () => resolve(value))
        signal?.addEventListener("abort", () => reject(signal.reason))
      })
  const clockOf = (owner: string) => clock.steps.clockOf(owner, clock.now)
  const page = "page"
  const program = load(sleepOf(page))
  const tables = Layer.provideMerge(measures, portsOf(counting))
  const layer = Layer.provideMerge(Layer.orDie(control), tables).pipe(
    Layer.provide([Layer.setClock(clockOf(page)), configured(), Logging.to(log, [])])
  )
  void clock.run()
  const engine = await Engine.makeAlone(layer)
  const context = await engine.run(Effect.context<Layer.Layer.Success<typeof layer>>())
  const shift = Shift.make(engine, Shift.watching(engine as never), engine.close)
  const answer = HttpApp.toWebHandlerRuntime(await engine.run(Effect.runtime<never>()))(
    Effect.map(Context.get(context, ApiApp), withWebBody)
  )
  let started = 0

  /** Starts a process, as the supervisor of a real one would. */
  const startProcess = async (): Promise<Process> => {
    started += 1
    const id = String(started)
    const owner = `process ${id}`
    const { handlers, limits, queues, schedules } = load(sleepOf(owner))
    const wires = Disconnectable.make(context)
    const worker = Worker.layer({
      handlers: ofRecipes(handlers),
      queues: queues ?? handlers.map(({ kind }) => kind.queue),
      schedules,
      limits,
      loops: PodLoops.inMemory
    }).pipe(
      Layer.provide([WorkerConfig.layer, ClusterConfig.layer, PodLoops.configs]),
      Layer.provide(Layer.fresh(counting)),
      Layer.provide([
        wires.layer,
        Layer.succeed(DirectHandoff, DirectHandoff.make()),
        Layer.succeed(Metrics, Metrics.make()),
        Layer.succeed(EventLoop, EventLoop.still)
      ]),
      Layer.provide(configured({ NIGHTSHIFT_WORKER_ID: id }))
    )
    const built = await engine.run(
      Effect.flatMap(Scope.make(), (scope) => Layer.buildWithScope(worker, scope)).pipe(
        Effect.withClock(clockOf(owner))
      )
    )
    const { pod, running } = Context.get(built, Worker.Worker)
    return {
      name: `page-worker-${id}`,
      running: () => running().map(({ attempt, id, kind }) => ({ id, kind, attempt })),
      kill: () => {
        wires.cut()
        Context.get(context, LockTable).setHeld(pod as PodId, false)
        clock.steps.forget(owner)
      }
    }
  }

  return {
    clock,
    shift,
    /** The program as the page uses it, to enqueue and publish. */
    program,
    /** Answers a request to the HTTP API. */
    answer,
    startProcess
  }
}
