import * as HttpApi from "@effect/platform/HttpApi"
import * as OpenApi from "@effect/platform/OpenApi"
import * as AuditContract from "./access/AuditContract.js"
import * as SessionContract from "./access/SessionContract.js"
import * as TokensContract from "./access/TokensContract.js"
import * as KindsContract from "./admin/KindsContract.js"
import * as LimitsContract from "./admin/LimitsContract.js"
import * as MetricsContract from "./admin/MetricsContract.js"
import * as PodsContract from "./admin/PodsContract.js"
import * as QueuesContract from "./admin/QueuesContract.js"
import * as SchedulesContract from "./admin/SchedulesContract.js"
import * as BotsContract from "./bots/BotsContract.js"
import { problem } from "./Contract.js"
import * as BatchesContract from "./jobs/BatchesContract.js"
import * as BulkContract from "./jobs/BulkContract.js"
import * as GroupsContract from "./jobs/GroupsContract.js"
import * as JobsContract from "./jobs/JobsContract.js"
import * as ViewsContract from "./jobs/ViewsContract.js"
import * as EventsContract from "./live/EventsContract.js"
import * as OpenApiTidy from "./OpenApiTidy.js"
import * as UploadsContract from "./uploads/UploadsContract.js"
import * as WorkflowsContract from "./workflows/WorkflowsContract.js"

/** The HTTP API's contract: requests and responses of every route. */
export const Api = HttpApi.make("nightshift")
  .add(JobsContract.group)
  .add(BulkContract.group)
  .add(BatchesContract.group)
  .add(GroupsContract.group)
  .add(ViewsContract.group)
  .add(QueuesContract.group)
  .add(KindsContract.group)
  .add(SchedulesContract.group)
  .add(WorkflowsContract.group)
  .add(PodsContract.group)
  .add(LimitsContract.group)
  .add(MetricsContract.group)
  .add(BotsContract.group)
  .add(UploadsContract.group)
  .add(TokensContract.group)
  .add(EventsContract.group)
  .add(AuditContract.group)
  .add(SessionContract.group)
  .prefix("/api/v1")
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
