import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { about, Moment, problems } from "../Contract.js"
import { QueuePatchRequest } from "./QueuePatchRequest.js"
import { QueueView } from "./QueueView.js"

export const group = HttpApiGroup.make("queues")
  .add(
    HttpApiEndpoint.get("list", "/queues").addSuccess(
      Schema.Struct({
        queues: Schema.Array(QueueView),
        countedAt: Moment.annotations({
          description: "When the jobs were counted; counts are cached between requests."
        }),
        measuredAt: Schema.NullOr(Moment).annotations({
          description: "When `throughput` was measured; null if the query failed."
        })
      })
    )
  )
  .add(
    HttpApiEndpoint.patch("change", "/queues/:name")
      .setPath(Schema.Struct({ name: Schema.String }))
      .setPayload(QueuePatchRequest)
      .addSuccess(QueueView)
      .addError(problems(400, 404, 413, 415))
      .annotateContext(
        about(
          "Change the given settings atomically. Once a pause is acknowledged, no job of the queue is claimed. A queue that no pod has declared can be paused ahead of its first job; other changes of it return 404."
        )
      )
  )
