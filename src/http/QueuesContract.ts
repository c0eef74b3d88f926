import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { State } from "../core/Job.js"

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
  approximate: Schema.Array(State).annotations({
    description: "States whose count is not exact: at least so many, and of done ones about so many."
  }),
  oldestDueAgeSeconds: Schema.NullOr(Schema.Number)
}).annotations({ identifier: "Queue" })

/** Queues: what waits in them and for how long. */
export const group = HttpApiGroup.make("queues").add(
  HttpApiEndpoint.get("list", "/queues").addSuccess(Schema.Struct({ queues: Schema.Array(QueueView) }))
)
