import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"

export const group = HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("follow", "/events")
    .addSuccess(HttpApiSchema.Text({ contentType: "text/event-stream" }))
    .annotateContext(
      OpenApi.annotations({
        description:
          "Stream server-sent events. The first is `snapshot` (queues, countedAt, pods, jobs, sampled, warnings), followed by changes: `queues` (changed, gone, countedAt), `pods`, `jobs` (jobs, sampled), `warnings`. A reconnect starts with a new snapshot."
      })
    )
)
