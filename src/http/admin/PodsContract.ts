import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { PodView } from "./PodView.js"

const Answer = Schema.Struct({
  pods: Schema.Array(PodView),
  unservedQueues: Schema.Array(Schema.String).annotations({
    description: "Queues with due jobs that no live pod serves."
  })
})

export const group = HttpApiGroup.make("pods").add(
  HttpApiEndpoint.get("list", "/pods")
    .addSuccess(Answer)
    .annotateContext(OpenApi.annotations({ description: "List live pods by id, and queues that no pod serves." }))
)
