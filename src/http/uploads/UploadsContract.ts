import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"

const UploadsView = Schema.Struct({
  counts: Schema.Struct({
    waiting: Schema.Int,
    fetched: Schema.Int,
    acked: Schema.Int,
    expired: Schema.Int
  }).annotations({ description: "Each counted up to a hundred thousand." }),
  stuck: Schema.Array(
    Schema.Struct({
      workspace: Schema.String,
      files: Schema.Int,
      bytes: Schema.Int,
      waitingSeconds: Schema.Number
    })
  ).annotations({ description: "Workspaces whose files have waited for an hour or longer, the longest first." })
}).annotations({ identifier: "Uploads" })

/** Files: how many there are, and who does not fetch theirs. */
export const group = HttpApiGroup.make("uploads").add(
  HttpApiEndpoint.get("overview", "/uploads")
    .addSuccess(UploadsView)
    .annotateContext(OpenApi.annotations({ description: "How many files there are, and who does not fetch theirs." }))
)
