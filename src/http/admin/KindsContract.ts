import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { about, problem } from "../Contract.js"

const fields = {
  name: Schema.String,
  queue: Schema.String.annotations({ description: "Where its jobs are enqueued by default." }),
  version: Schema.Int,
  maxAttempts: Schema.Int
}

/** A registered kind in API responses. */
export const KindView = Schema.Struct({
  ...fields,
  schema: Schema.Unknown.annotations({ description: "The payload as JSON Schema; null if its code declares none." })
}).annotations({ identifier: "Kind" })

export const KindsView = Schema.Struct({ kinds: Schema.Array(Schema.Struct(fields)) })

export const group = HttpApiGroup.make("kinds")
  .add(
    HttpApiEndpoint.get("list", "/kinds").addSuccess(KindsView).annotateContext(about("List registered kinds by name."))
  )
  .add(
    HttpApiEndpoint.get("get", "/kinds/:name")
      .setPath(Schema.Struct({ name: Schema.String }))
      .addSuccess(KindView)
      .addError(problem(404))
      .annotateContext(about("Get a registered kind with the schema of its payload."))
  )
