import * as Http from "node:http"
import { layer as layerOf, type Vitest } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import * as AccessPg from "../../src/access/AccessPg.js"
import type { Audit } from "../../src/access/Audit.js"
import type { Idempotency } from "../../src/access/Idempotency.js"
import type { SavedViews } from "../../src/access/SavedViews.js"
import type { Sessions } from "../../src/access/Sessions.js"
import type { Tokens } from "../../src/access/Tokens.js"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import * as ClusterPg from "../../src/cluster/ClusterPg.js"
import type { Leadership } from "../../src/cluster/Leadership.js"
import type { Pods } from "../../src/cluster/Pods.js"
import { Lifecycle } from "../../src/core/Lifecycle.js"
import type { Hints } from "../../src/database/Hints.js"
import * as Listener from "../../src/database/Listener.js"
import { Bots } from "../../src/gateway/Bots.js"
import { Deliveries } from "../../src/gateway/Deliveries.js"
import { ApiApp } from "../../src/http/server/ApiApp.js"
import { ClusterConfig } from "../../src/worker/ClusterConfig.js"
import { RemoteWorkers } from "../../src/worker/remote/RemoteWorkers.js"
import { WorkerConfig } from "../../src/worker/WorkerConfig.js"
// The server loads this module at its start. Loaded here, it does not count towards the time of a test.
import "../../src/http/server/ApiRoutes.js"
import * as HistoryPg from "../../src/history/HistoryPg.js"
import type { HistoryPorts } from "../../src/history/HistoryPorts.js"
import { AccessConfig } from "../../src/http/access/AccessConfig.js"
import { WebhookEndpoint } from "../../src/http/hooks/WebhookEndpoint.js"
import { ServerConfig } from "../../src/http/ServerConfig.js"
import { UiApp } from "../../src/http/server/Pages.js"
import { Readiness } from "../../src/http/server/Readiness.js"
import * as Server from "../../src/http/server/Server.js"
import { UploadsApp } from "../../src/http/uploads/UploadsApp.js"
import type { Operations } from "../../src/queue/admin/Operations.js"
import type { Batches } from "../../src/queue/batch/Batches.js"
import type { Endpoints } from "../../src/queue/endpoints/Endpoints.js"
import type { Erasure } from "../../src/queue/erasure/Erasure.js"
import type { Events } from "../../src/queue/events/Events.js"
import type { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Kinds } from "../../src/queue/Kinds.js"
import type { JobLogs } from "../../src/queue/logs/JobLogs.js"
import type { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import type { JobOverview } from "../../src/queue/search/JobOverview.js"
import type { JobSearch } from "../../src/queue/search/JobSearch.js"
import type { Queues } from "../../src/queue/settings/QueueSettings.js"
import type { Routes } from "../../src/queue/settings/Routes.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import type { JobDiagnosis } from "../../src/queue/why/JobDiagnosis.js"
import type { Workflows } from "../../src/queue/workflow/Workflows.js"
import type { RateLimits } from "../../src/rate-limits/RateLimits.js"
import * as RateLimitsMemory from "../../src/rate-limits/RateLimitsMemory.js"
import * as RateLimitsPg from "../../src/rate-limits/RateLimitsPg.js"
import type { Schedules } from "../../src/schedule/Schedules.js"
import * as SchedulesMemory from "../../src/schedule/SchedulesMemory.js"
import * as SchedulesPg from "../../src/schedule/SchedulesPg.js"
import { EventLoop } from "../../src/telemetry/EventLoop.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import type { Storage } from "../../src/uploads/Storage.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import { UploadsConfig } from "../../src/uploads/UploadsConfig.js"
import * as AccessMemory from "../support/AccessMemory.js"
import * as MeasuresMemory from "../support/MeasuresMemory.js"
import * as TestDatabase from "../support/TestDatabase.js"

export interface Asked {
  readonly token?: string | undefined
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent unchanged; several pieces are sent chunked. */
  readonly body?: string | Buffer | ReadonlyArray<Buffer>
  readonly headers?: Readonly<Record<string, string>>
}

export interface Answer {
  readonly status: number
  readonly headers: Http.IncomingHttpHeaders
  readonly text: string
  readonly json: unknown
}

const ignore = () => {}

/** Sends requests that `fetch` does not allow: any Host header, bodies without a length. */
export const ask = (url: string, method: string, asked: Asked): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const { body, headers, json, token } = asked
    const sent = json === undefined ? (body ?? "") : JSON.stringify(json)
    const pieces = typeof sent === "string" || Buffer.isBuffer(sent) ? [Buffer.from(sent)] : sent
    const length = pieces.length === 1 ? { "content-length": String(pieces[0]?.length ?? 0) } : {}
    const request = Http.request(url, {
      method,
      headers: {
        ...(json === undefined ? {} : { "content-type": "application/json" }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...length,
        ...headers
      }
    })
    let isAnswered = false
    request.on("error", (error: NodeJS.ErrnoException) => {
      // A server closes an idle connection even if a request is on its way to it, and one whose request it refused early.
      if (isAnswered) return
      if (request.reusedSocket && error.code === "ECONNRESET") resolve(ask(url, method, asked))
      else reject(error)
    })
    // A server that answered early closes the connection during the rest of the body; that error belongs to no request.
    request.on("socket", (socket) => {
      if (!socket.listeners("error").includes(ignore)) socket.on("error", ignore)
    })
    request.on("response", (response) => {
      isAnswered = true
      const chunks: Array<Buffer> = []
      response.on("error", reject)
      response.on("data", (chunk) => chunks.push(chunk))
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString()
        const isJson = response.headers["content-type"]?.startsWith("application/json") === true
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: isJson ? JSON.parse(text) : undefined
        })
      })
    })
    for (const piece of pieces) request.write(piece)
    request.end()
  })

/** A service over real HTTP. */
export class TestServer extends Context.Tag("test/http/TestServer")<
  TestServer,
  {
    readonly ask: (method: string, path: string, asked?: Asked) => Effect.Effect<Answer>
    /** The same with the admin's token. */
    readonly admin: (method: string, path: string, asked?: Asked) => Effect.Effect<Answer>
    /** The same with the viewer's token. */
    readonly viewer: (method: string, path: string, asked?: Asked) => Effect.Effect<Answer>
    readonly port: number
  }
>() {}

export const adminToken = "admin-sesame"
export const viewerToken = "viewer-sesame"

type Config = typeof ServerConfig.Service
type Access = typeof AccessConfig.Service
export type Configs = Partial<Config & Access>

type JobActs =
  | Queue
  | Queues
  | JobAdmin
  | Operations
  | Batches
  | Events
  | Endpoints
  | Erasure
  | Workflows
  | Kinds
  | Routes
  | Transactions
type JobPorts = JobActs | JobSearch | JobLogs | JobOverview | JobDiagnosis
type QueuePorts = JobPorts | Schedules | RateLimits | Wakeups.Wakeups | Hints
export type Ports = QueuePorts | Pods | Leadership | HistoryPorts | Sessions | Audit | Idempotency | SavedViews

const usualAccess: Access = {
  environment: Option.none(),
  sessionLasting: Duration.hours(12),
  apiRate: 0,
  listeners: 10,
  mask: []
}

const bothTokens: Config = {
  host: "127.0.0.1",
  port: 0,
  adminToken: Option.some(Redacted.make(adminToken)),
  viewerToken: Option.some(Redacted.make(viewerToken)),
  workerTokens: Option.none(),
  metricsToken: Option.none(),
  trustProxy: ""
}

/** Kinds that a pod of these tests would register. */
const kinds = Layer.effectDiscard(
  Effect.flatMap(Kinds, ({ register }) =>
    register([
      { name: "greet", queue: "mail", version: 3, attempts: 7, onDead: undefined, workflow: true },
      { name: "plain", queue: "default", version: 1, attempts: 5, onDead: undefined }
    ])
  )
)

/** The webhook services behind the API. */
export type Hooks<R> = Layer.Layer<WebhookEndpoint | Bots | Deliveries, never, R>

/** No webhooks are configured. */
export const noHooks: Hooks<never> = Layer.mergeAll(
  Layer.succeed(WebhookEndpoint, { take: (_, response) => void response.writeHead(404).end() }),
  Bots.layerNone,
  Deliveries.layer
)

const doorsOver = <E, R, H>(
  apps: Layer.Layer<ApiApp | UploadsApp, E, R | ServerConfig | AccessConfig>,
  config: Configs,
  hooks: Hooks<H>
) => {
  const configured = Layer.merge(
    Layer.succeed(ServerConfig, { ...bothTokens, ...config }),
    Layer.succeed(AccessConfig, { ...usualAccess, ...config })
  )
  return Layer.effect(
    TestServer,
    Effect.map(Server.Server, ({ url }) => {
      const door = (method: string, path: string, asked: Asked = {}) =>
        Effect.promise(() => ask(`${url}${path}`, method, asked))
      return {
        ask: door,
        admin: (method, path, asked) => door(method, path, { token: adminToken, ...asked }),
        viewer: (method, path, asked) => door(method, path, { token: viewerToken, ...asked }),
        port: Number(new URL(url).port)
      }
    })
  ).pipe(
    Layer.provide(Server.layer),
    Layer.provide(apps),
    Layer.provide(hooks),
    Layer.provide(configured),
    Layer.provide([Readiness.layerWithoutDatabase, Metrics.layer, EventLoop.layer, UiApp.layerNone]),
    Layer.provideMerge(Lifecycle.layer)
  )
}

/** The upload services behind the API. */
export interface Uploads<R> {
  readonly ports: Layer.Layer<Storage | Tokens, never, R>
  readonly door: Layer.Layer<UploadsApp, never, Storage | Tokens | Queue | Kinds | Transactions | ServerConfig>
}

/** The upload API has its own tests. */
export const behind: Uploads<never> = {
  ports: Layer.merge(AccessMemory.tokens, Layer.provide(StorageMemory.layer, UploadsConfig.layerDefault)),
  door: UploadsApp.layerWithoutDatabase
}

/** On a queue of the test's choice. */
export const layerOver = <R, E, I>(queue: Layer.Layer<QueuePorts | R, E, I>, config: Configs = {}) =>
  layerOverAll(Layer.mergeAll(queue, ClusterMemory.layer, MeasuresMemory.layer, AccessMemory.layer), behind, config)

/** Of remote workers. The service reads NIGHTSHIFT_MASK for both configurations. */
const workerConfig = ({ mask = [] }: Configs) =>
  Layer.map(WorkerConfig.layer, (context) =>
    Context.add(context, WorkerConfig, { ...Context.get(context, WorkerConfig), mask })
  )

export const layerOverAll = <R, E, I, U>(
  ports: Layer.Layer<Ports | R, E, I>,
  uploads: Uploads<U>,
  config: Configs = {},
  hooks: Hooks<Ports | Metrics | ServerConfig> = noHooks
) =>
  doorsOver(Layer.merge(ApiApp.layer, uploads.door), config, hooks).pipe(
    Layer.provide(RemoteWorkers.layer),
    Layer.provide(Layer.orDie(Layer.merge(ClusterConfig.layer, workerConfig(config)))),
    Layer.provide(Metrics.layer),
    Layer.provideMerge(uploads.ports),
    Layer.provideMerge(Layer.provideMerge(kinds, ports))
  )

const memory = Layer.merge(SchedulesMemory.layer, RateLimitsMemory.layer).pipe(
  Layer.provideMerge(QueueMemory.layer),
  Layer.provideMerge(Transactions.layerMemory),
  Layer.provideMerge(Wakeups.layer)
)

/** Everything but uploads, in memory. */
export const portsMemory = Layer.mergeAll(memory, ClusterMemory.layer, MeasuresMemory.layer, AccessMemory.layer)

const portsOver = (database: typeof TestDatabase.layer) =>
  Layer.mergeAll(SchedulesPg.layer, ClusterPg.layer, RateLimitsPg.layer, HistoryPg.layer, AccessPg.layer).pipe(
    Layer.provideMerge(QueuePg.layer),
    Layer.provide(Listener.layerPolling),
    Layer.provideMerge(database)
  )

/** Everything but uploads, on its own database. */
export const portsPostgres = portsOver(TestDatabase.layer)

/** On a queue in memory. */
export const layer = (config: Configs = {}) => layerOver(memory, config)

/** On PostgreSQL. */
export const layerPostgres = (config: Configs = {}, hooks: Hooks<Ports | Metrics | ServerConfig> = noHooks) =>
  layerOverAll(portsPostgres, behind, config, hooks)

/** On a database of the test's choice. */
export const layerPostgresOver = (database: typeof TestDatabase.layer) => layerOverAll(portsOver(database), behind)

/** On PostgreSQL, with an audit of the test's choice. */
export const layerPostgresWith = (audit: Layer.Layer<Audit, never, Audit>) =>
  layerOverAll(Layer.provideMerge(audit, portsPostgres), behind)

/** Backends on which every route must behave the same. */
export const backends: ReadonlyArray<
  readonly [where: string, layer: (config?: Configs) => Layer.Layer<TestServer | Ports>]
> = [
  ["memory", (config) => Layer.orDie(layer(config))],
  ["PostgreSQL", (config) => Layer.orDie(layerPostgres(config))]
]

/** Declares tests on every backend that share a server and its data: each test uses its own names. */
export const onSharedServers = <R>(
  backends: ReadonlyArray<readonly [where: string, layer: () => Layer.Layer<R>]>,
  name: string,
  tests: (it: Vitest.MethodsNonLive<R, true>) => void
): void => {
  for (const [where, make] of backends) layerOf(make(), { excludeTestServices: true })(`${name} (${where})`, tests)
}

export const layerWithoutDatabase = (config: Configs = {}) =>
  doorsOver(Layer.merge(ApiApp.layerWithoutDatabase, UploadsApp.layerWithoutDatabase), config, noHooks)
