import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { about, Moment, problems } from "../Contract.js"
import { QueuePatchRequest } from "./QueuePatchRequest.js"
import { QueueView } from "./QueueView.js"

/** Queues: what waits in them and for how long, and what operators want of them. */
export const group = HttpApiGroup.make("queues")
  .add(
    HttpApiEndpoint.get("list", "/queues").addSuccess(
      Schema.Struct({
        queues: Schema.Array(QueueView),
        countedAt: Moment.annotations({
          description: "When the jobs were counted, which is not done at every request."
        }),
        measuredAt: Schema.NullOr(Moment).annotations({
          description: "The same of `throughput`; null where the database had no time for it."
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
        about("Changes what is named, all or nothing. After a pause is answered, nothing is claimed any more.")
      )
  )
