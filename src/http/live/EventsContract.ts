import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { problem } from "../Contract.js"
import * as WireText from "../WireText.js"

export const group = HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("follow", "/events")
    .setUrlParams(
      Schema.Struct({
        jobs: WireText.optional(
          Schema.Literal("all", "none").annotations({
            description:
              "`none` leaves the jobs out of `snapshot` and `jobs`, for clients that load what they show when something changes. Default `all`."
          })
        )
      }).annotations(WireText.strict)
    )
    .addSuccess(HttpApiSchema.Text({ contentType: "text/event-stream" }))
    .addError(problem(400))
    .annotateContext(
      OpenApi.annotations({
        description:
          "Stream server-sent events. The first is `snapshot` (queues, countedAt, pods, jobs, sampled, warnings), followed by changes: `queues` (changed, gone, countedAt), `pods`, `jobs` (jobs, sampled), `warnings`. A reconnect starts with a new snapshot."
      })
    )
)
