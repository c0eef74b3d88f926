import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import { Context, Effect, Layer } from "effect"
import * as AuditRoutes from "../access/AuditRoutes.js"
import * as Auth from "../access/Auth.js"
import * as TokensRoutes from "../access/TokensRoutes.js"
import * as ActionsRoutes from "../admin/ActionsRoutes.js"
import * as ChangesRoutes from "../admin/ChangesRoutes.js"
import { ClusterOverview } from "../admin/ClusterOverview.js"
import * as KindsRoutes from "../admin/KindsRoutes.js"
import * as LimitsRoutes from "../admin/LimitsRoutes.js"
import * as MetricsRoutes from "../admin/MetricsRoutes.js"
import * as PodsRoutes from "../admin/PodsRoutes.js"
import * as QueuesRoutes from "../admin/QueuesRoutes.js"
import * as SchedulesRoutes from "../admin/SchedulesRoutes.js"
import * as SnoozesRoutes from "../admin/SnoozesRoutes.js"
import { ThroughputCache } from "../admin/ThroughputCache.js"
import * as BotsRoutes from "../bots/BotsRoutes.js"
import { apiPrefix } from "../Contract.js"
import { CellFigures } from "../fleet/CellFigures.js"
import * as FleetRoutes from "../fleet/FleetRoutes.js"
import * as Forwarding from "../fleet/Forwarding.js"
import * as BatchesRoutes from "../jobs/BatchesRoutes.js"
import * as BulkRoutes from "../jobs/BulkRoutes.js"
import { CountsCache } from "../jobs/CountsCache.js"
import * as EndpointsRoutes from "../jobs/EndpointsRoutes.js"
import * as EraseRoutes from "../jobs/EraseRoutes.js"
import * as GroupsRoutes from "../jobs/GroupsRoutes.js"
import * as JobsRoutes from "../jobs/JobsRoutes.js"
import { ListCache } from "../jobs/ListCache.js"
import * as LogsRoutes from "../jobs/LogsRoutes.js"
import * as PublishRoutes from "../jobs/PublishRoutes.js"
import * as ViewsRoutes from "../jobs/ViewsRoutes.js"
import { EventStreams } from "../live/EventStreams.js"
import * as EventsRoutes from "../live/EventsRoutes.js"
import { Live } from "../live/Live.js"
import * as StreamRoutes from "../live/StreamRoutes.js"
import * as Problem from "../Problem.js"
import * as UploadsRoutes from "../uploads/UploadsRoutes.js"
import * as WorkRoutes from "../work/WorkRoutes.js"
import * as WorkflowsRoutes from "../workflows/WorkflowsRoutes.js"
import * as OpenApiTidy from "./OpenApiTidy.js"
import * as SessionRoutes from "./SessionRoutes.js"

// Imported while the process waits for the database: evaluating the schemas and routes takes a fifth of the startup time.

/** The HTTP API's contract: requests and responses of every route. */
const Api = HttpApi.make("nightshift")
  .add(JobsRoutes.group)
  .add(LogsRoutes.group)
  .add(BulkRoutes.group)
  .add(BatchesRoutes.group)
  .add(PublishRoutes.group)
  .add(EndpointsRoutes.group)
  .add(EraseRoutes.group)
  .add(GroupsRoutes.group)
  .add(ViewsRoutes.group)
  .add(QueuesRoutes.group)
  .add(KindsRoutes.group)
  .add(SchedulesRoutes.group)
  .add(WorkflowsRoutes.group)
  .add(StreamRoutes.group)
  .add(WorkRoutes.group)
  .add(PodsRoutes.group)
  .add(LimitsRoutes.group)
  .add(MetricsRoutes.group)
  .add(BotsRoutes.group)
  .add(UploadsRoutes.group)
  .add(TokensRoutes.group)
  .add(EventsRoutes.group)
  .add(AuditRoutes.group)
  .add(ActionsRoutes.group)
  .add(SnoozesRoutes.group)
  .add(ChangesRoutes.group)
  .add(FleetRoutes.group)
  .add(SessionRoutes.group)
  .prefix(apiPrefix)
  .annotateContext(
    OpenApi.annotations({
      title: "Nightshift",
      version: "v1",
      description:
        "Times are RFC 3339. Durations that you set are text such as 90s, 5m or 1h30m; requests may also give milliseconds as a number. Measured times are in seconds.",
      transform: OpenApiTidy.apply
    })
  )

/** The contract in the OpenAPI format. Takes several tenths of a second. */
export const specification = (): OpenApi.OpenAPISpec => OpenApi.fromApi(Api)

const contract = HttpApiBuilder.api(Api).pipe(
  Layer.provide([
    JobsRoutes.layer,
    LogsRoutes.layer,
    BulkRoutes.layer,
    BatchesRoutes.layer,
    PublishRoutes.layer,
    EndpointsRoutes.layer,
    EraseRoutes.layer,
    WorkflowsRoutes.layer,
    StreamRoutes.layer,
    GroupsRoutes.layer,
    ViewsRoutes.layer,
    QueuesRoutes.layer,
    KindsRoutes.layer,
    SchedulesRoutes.layer,
    LimitsRoutes.layer,
    WorkRoutes.layer,
    PodsRoutes.layer,
    MetricsRoutes.layer,
    BotsRoutes.layer,
    UploadsRoutes.layer,
    TokensRoutes.layer,
    EventsRoutes.layer,
    AuditRoutes.layer,
    ActionsRoutes.layer,
    SnoozesRoutes.layer,
    ChangesRoutes.layer,
    FleetRoutes.layer,
    SessionRoutes.layer
  ]),
  Layer.provide(CellFigures.layer),
  Layer.provide(Layer.merge(Live.layer, ListCache.layer)),
  Layer.provide(EventStreams.layer),
  Layer.provide(Layer.mergeAll(CountsCache.layer, ThroughputCache.layer, ClusterOverview.layer))
)

// Generated on the first request, because it takes about a tenth of the startup time.
const openApi = HttpApiBuilder.Router.use((router) =>
  router.get(
    Auth.contractPath,
    Effect.sync(() => HttpServerResponse.unsafeJson(specification()))
  )
)

// Runs inside the contract's app, which would otherwise format schema errors in its own way.
const problems = HttpApiBuilder.middleware(Effect.catchAllCause(Problem.causeToResponse))

/** The API without authentication. */
export class ContractApp extends Context.Tag("nightshift/http/ContractApp")<
  ContractApp,
  Effect.Effect.Success<typeof HttpApiBuilder.httpApp>
>() {}

export const layer = Layer.effect(ContractApp, HttpApiBuilder.httpApp).pipe(
  Layer.provide(openApi),
  Layer.provide(Layer.provide(Forwarding.layer, EventStreams.layer)),
  Layer.provide(problems),
  Layer.provide(contract),
  Layer.provide([HttpApiBuilder.Router.Live, HttpApiBuilder.Middleware.layer])
)
