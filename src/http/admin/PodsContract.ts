import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { PodView } from "./PodView.js"

const Answer = Schema.Struct({
  pods: Schema.Array(PodView),
  unservedQueues: Schema.Array(Schema.String).annotations({
    description: "Queues with due jobs that no live pod takes."
  })
})

/** Pods: who is there, and what nobody does. */
export const group = HttpApiGroup.make("pods").add(
  HttpApiEndpoint.get("list", "/pods")
    .addSuccess(Answer)
    .annotateContext(OpenApi.annotations({ description: "The live pods, by id, and the queues that nobody serves." }))
)
