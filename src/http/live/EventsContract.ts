import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"

/** What happens, as it happens. */
export const group = HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("follow", "/events")
    .addSuccess(HttpApiSchema.Text({ contentType: "text/event-stream" }))
    .annotateContext(
      OpenApi.annotations({
        description:
          "Server-sent events. First `snapshot` (queues, countedAt, pods, jobs, sampled, warnings), then what changes: `queues` (changed, gone, countedAt), `pods`, `jobs` (jobs, sampled), `warnings`. A reconnect begins with a snapshot."
      })
    )
)
