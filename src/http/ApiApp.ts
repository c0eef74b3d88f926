import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Duration, Effect, Layer } from "effect"
import type { Audit } from "../access/Audit.js"
import type { Idempotency } from "../access/Idempotency.js"
import type { SavedViews } from "../access/SavedViews.js"
import { Sessions } from "../access/Sessions.js"
import type { Tokens } from "../access/Tokens.js"
import type { Leadership } from "../cluster/Leadership.js"
import type { Pods } from "../cluster/Pods.js"
import type { Lifecycle } from "../core/Lifecycle.js"
import type { ClusterConfig } from "../crew/ClusterConfig.js"
import type { Bots } from "../gateway/Bots.js"
import type { Deliveries } from "../gateway/Deliveries.js"
import type { RateLimits } from "../limits/RateLimits.js"
import type { Measures } from "../measures/Measures.js"
import type { JobAdmin } from "../queue/admin/JobAdmin.js"
import type { Operations } from "../queue/admin/Operations.js"
import type { Batches } from "../queue/batch/Batches.js"
import type { Kinds } from "../queue/Kinds.js"
import type { Queue } from "../queue/Queue.js"
import type { JobOverview } from "../queue/search/JobOverview.js"
import type { JobSearch } from "../queue/search/JobSearch.js"
import type { Queues } from "../queue/settings/QueueSettings.js"
import type { Transactions } from "../queue/Transactions.js"
import type { JobDiagnosis } from "../queue/why/JobDiagnosis.js"
import type { Workflows } from "../queue/workflow/Workflows.js"
import type { Schedules } from "../schedule/Schedules.js"
import type { Storage } from "../uploads/Storage.js"
import { Api } from "./Api.js"
import { AccessConfig } from "./access/AccessConfig.js"
import { Attempts } from "./access/Attempts.js"
import * as AuditRoutes from "./access/AuditRoutes.js"
import * as Auth from "./access/Auth.js"
import { Caller } from "./access/Caller.js"
import * as SessionRoutes from "./access/SessionRoutes.js"
import * as Throttle from "./access/Throttle.js"
import * as TokensRoutes from "./access/TokensRoutes.js"
import * as KindsRoutes from "./admin/KindsRoutes.js"
import * as LimitsRoutes from "./admin/LimitsRoutes.js"
import * as MetricsRoutes from "./admin/MetricsRoutes.js"
import * as PodsRoutes from "./admin/PodsRoutes.js"
import * as QueuesRoutes from "./admin/QueuesRoutes.js"
import * as SchedulesRoutes from "./admin/SchedulesRoutes.js"
import { ThroughputCache } from "./admin/ThroughputCache.js"
import * as BotsRoutes from "./bots/BotsRoutes.js"
import { ClusterOverview } from "./ClusterOverview.js"
import * as BatchesRoutes from "./jobs/BatchesRoutes.js"
import * as BulkRoutes from "./jobs/BulkRoutes.js"
import { CountsCache } from "./jobs/CountsCache.js"
import * as GroupsRoutes from "./jobs/GroupsRoutes.js"
import * as JobsRoutes from "./jobs/JobsRoutes.js"
import { ListCache } from "./jobs/ListCache.js"
import * as ViewsRoutes from "./jobs/ViewsRoutes.js"
import * as EventsRoutes from "./live/EventsRoutes.js"
import { Live } from "./live/Live.js"
import * as Problem from "./Problem.js"
import { DatabaseOff, ResponseTimeout } from "./RequestErrors.js"
import { ServerConfig } from "./ServerConfig.js"
import * as UploadsRoutes from "./uploads/UploadsRoutes.js"
import * as WorkflowsRoutes from "./workflows/WorkflowsRoutes.js"

/** Everything under `/api`. Authenticates the caller before it parses the request. */
export class ApiApp extends Context.Tag("nightshift/http/ApiApp")<ApiApp, HttpApp.Default>() {
  static readonly layer: Layer.Layer<ApiApp, never, Needs> = Layer.suspend(() => withDatabase)

  /** For a process started without a database: every request fails with `DatabaseOff`. */
  static readonly layerWithoutDatabase: Layer.Layer<ApiApp, never, ServerConfig> = Layer.effect(
    ApiApp,
    Effect.map(ServerConfig, (config) =>
      Auth.checkHost(config).pipe(Effect.zipRight(new DatabaseOff()), Effect.catchAll(Problem.answer))
    )
  )
}

type Configs = ServerConfig | AccessConfig | ClusterConfig
type QueuePorts =
  | Queue
  | Queues
  | JobAdmin
  | JobSearch
  | JobOverview
  | JobDiagnosis
  | Operations
  | Batches
  | Workflows
  | Kinds
  | Transactions
type OtherPorts = Schedules | RateLimits | Pods | Leadership | Measures | Storage | Tokens
type Gateway = Bots | Deliveries
type Memory = Sessions | Audit | Idempotency | SavedViews
type Needs = Configs | QueuePorts | OtherPorts | Gateway | Memory | Lifecycle

/** Timeout of every API request. */
const longestRequest = Duration.seconds(60)

const contract = HttpApiBuilder.api(Api).pipe(
  Layer.provide([
    JobsRoutes.layer,
    BulkRoutes.layer,
    BatchesRoutes.layer,
    WorkflowsRoutes.layer,
    GroupsRoutes.layer,
    ViewsRoutes.layer,
    QueuesRoutes.layer,
    KindsRoutes.layer,
    SchedulesRoutes.layer,
    LimitsRoutes.layer,
    PodsRoutes.layer,
    MetricsRoutes.layer,
    BotsRoutes.layer,
    UploadsRoutes.layer,
    TokensRoutes.layer,
    EventsRoutes.layer,
    AuditRoutes.layer,
    SessionRoutes.layer
  ]),
  Layer.provide(Layer.merge(Live.layer, ListCache.layer)),
  Layer.provide(Layer.mergeAll(CountsCache.layer, ThroughputCache.layer, ClusterOverview.layer))
)

// Generated on the first request, because it takes about a tenth of the startup time.
const openApi = HttpApiBuilder.Router.use((router) =>
  router.get(
    Auth.contractPath,
    Effect.sync(() => HttpServerResponse.unsafeJson(OpenApi.fromApi(Api)))
  )
)

// Runs inside the contract's app, which would otherwise format schema errors in its own way.
const problems = HttpApiBuilder.middleware(Effect.catchAllCause(Problem.answerCause))

/** Checks the Host header, authenticates, throttles and authorizes each request. */
const guard = Effect.gen(function* () {
  const config = yield* ServerConfig
  const { apiRate, sessionLasting } = yield* AccessConfig
  const registers = { sessions: yield* Sessions, attempts: yield* Attempts, lasting: sessionLasting }
  const throttle = apiRate === 0 ? undefined : Throttle.make({ burst: 2 * apiRate, perSecond: apiRate })
  return <R>(app: HttpApp.Default<never, R>) =>
    Effect.gen(function* () {
      yield* Auth.checkHost(config)
      const request = yield* HttpServerRequest.HttpServerRequest
      if (Auth.isOpen(request)) return yield* app
      const caller = yield* Auth.identify(config, registers)
      if (throttle !== undefined) yield* throttle.take(caller.who)
      yield* Auth.authorize(caller, request)
      return yield* Effect.provideService(app, Caller, caller)
    })
})

const withDatabase = Layer.effect(
  ApiApp,
  Effect.gen(function* () {
    const app = yield* HttpApiBuilder.httpApp
    const guarded = yield* guard
    const platform = yield* Effect.context<Layer.Layer.Success<typeof NodeHttpServer.layerContext>>()
    return guarded(Effect.provide(app, platform)).pipe(
      Effect.timeoutFail({
        duration: longestRequest,
        onTimeout: () => new ResponseTimeout({ seconds: Duration.toSeconds(longestRequest) })
      }),
      Effect.catchAll(Problem.answer)
    )
  })
).pipe(
  Layer.provide(openApi),
  Layer.provide(problems),
  Layer.provide(contract),
  Layer.provide(Attempts.layer),
  Layer.provide([HttpApiBuilder.Router.Live, HttpApiBuilder.Middleware.layer, NodeHttpServer.layerContext])
)
