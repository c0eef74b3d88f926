import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { Moment, problem } from "../Contract.js"
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
        })
      })
    )
  )
  .add(
    HttpApiEndpoint.patch("change", "/queues/:name")
      .setPath(Schema.Struct({ name: Schema.String }))
      .setPayload(QueuePatchRequest)
      .addSuccess(QueueView)
      .addError(problem(400))
      .addError(problem(404))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(
        OpenApi.annotations({
          description: "Changes what is named, all or nothing. After a pause is answered, nothing is claimed any more."
        })
      )
  )
