import * as HttpApi from "@effect/platform/HttpApi"
import * as OpenApi from "@effect/platform/OpenApi"
import * as AuditRoutes from "../access/AuditRoutes.js"
import * as TokensRoutes from "../access/TokensRoutes.js"
import * as KindsRoutes from "../admin/KindsRoutes.js"
import * as LimitsRoutes from "../admin/LimitsRoutes.js"
import * as MetricsRoutes from "../admin/MetricsRoutes.js"
import * as PodsRoutes from "../admin/PodsRoutes.js"
import * as QueuesRoutes from "../admin/QueuesRoutes.js"
import * as SchedulesRoutes from "../admin/SchedulesRoutes.js"
import * as BotsRoutes from "../bots/BotsRoutes.js"
import { apiPrefix, problem } from "../Contract.js"
import * as BatchesRoutes from "../jobs/BatchesRoutes.js"
import * as BulkRoutes from "../jobs/BulkRoutes.js"
import * as GroupsRoutes from "../jobs/GroupsRoutes.js"
import * as JobsRoutes from "../jobs/JobsRoutes.js"
import * as ViewsRoutes from "../jobs/ViewsRoutes.js"
import * as EventsRoutes from "../live/EventsRoutes.js"
import * as UploadsRoutes from "../uploads/UploadsRoutes.js"
import * as WorkflowsRoutes from "../workflows/WorkflowsRoutes.js"
import * as OpenApiTidy from "./OpenApiTidy.js"
import * as SessionRoutes from "./SessionRoutes.js"

/** The HTTP API's contract: requests and responses of every route. */
export const Api = HttpApi.make("nightshift")
  .add(JobsRoutes.group)
  .add(BulkRoutes.group)
  .add(BatchesRoutes.group)
  .add(GroupsRoutes.group)
  .add(ViewsRoutes.group)
  .add(QueuesRoutes.group)
  .add(KindsRoutes.group)
  .add(SchedulesRoutes.group)
  .add(WorkflowsRoutes.group)
  .add(PodsRoutes.group)
  .add(LimitsRoutes.group)
  .add(MetricsRoutes.group)
  .add(BotsRoutes.group)
  .add(UploadsRoutes.group)
  .add(TokensRoutes.group)
  .add(EventsRoutes.group)
  .add(AuditRoutes.group)
  .add(SessionRoutes.group)
  .prefix(apiPrefix)
  .addError(problem(401))
  .addError(problem(403))
  .addError(problem(429))
  .addError(problem(503))
  .annotateContext(
    OpenApi.annotations({
      title: "Nightshift",
      version: "v1",
      description: "Times are RFC 3339; durations are in seconds.",
      transform: OpenApiTidy.apply
    })
  )

/** The contract in the OpenAPI format. Takes several tenths of a second. */
export const specification = (): OpenApi.OpenAPISpec => OpenApi.fromApi(Api)
