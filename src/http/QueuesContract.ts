import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"

const Counts = Schema.Struct({
  scheduled: Schema.Int,
  retrying: Schema.Int,
  pending: Schema.Int,
  running: Schema.Int,
  done: Schema.Int,
  dead: Schema.Int
})

const QueueView = Schema.Struct({
  name: Schema.String,
  counts: Counts,
  oldestDueAgeSeconds: Schema.NullOr(Schema.Number)
}).annotations({ identifier: "Queue" })

/** Queues: what waits in them and for how long. */
export const group = HttpApiGroup.make("queues").add(
  HttpApiEndpoint.get("list", "/queues").addSuccess(Schema.Struct({ queues: Schema.Array(QueueView) }))
)
