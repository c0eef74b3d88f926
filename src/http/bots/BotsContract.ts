import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { State } from "../../core/StoredJob.js"
import { signatureStyles } from "../../gateway/config/Declarations.js"
import { among } from "../../gateway/DeliveryLog.js"
import { KeyOrder } from "../../queue/settings/QueueSettings.js"
import { Moment, problem } from "../Contract.js"

const lookedAt = `deliveries remembered by this process, and jobs among the newest ${among}`

/** Common fields of bots and sources, without secrets and tokens. */
const hook = {
  path: Schema.String.annotations({ description: "Path that receives its webhooks." }),
  counts: Schema.Record({ key: Schema.String, value: Schema.Int }).annotations({
    description: "Number of deliveries to this process by outcome, since it started."
  }),
  lastSeenAt: Schema.NullOr(Moment)
}

export const BotView = Schema.Struct({
  slug: Schema.String,
  ...hook,
  handler: Schema.String.annotations({ description: "`echo`, `http`, `auth` or a kind." }),
  target: Schema.NullOr(Schema.String).annotations({ description: "Host that the http handler calls." }),
  mode: Schema.Literal("sync", "async"),
  requireAuth: Schema.Boolean,
  chatOrder: KeyOrder,
  onError: Schema.Literal("apologize", "redeliver"),
  queue: Schema.NullOr(Schema.String).annotations({ description: "Queue of an async bot's jobs." }),
  kind: Schema.NullOr(Schema.String)
}).annotations({ identifier: "Bot" })
export type BotView = typeof BotView.Type

export const SourceView = Schema.Struct({
  name: Schema.String,
  ...hook,
  style: Schema.Literal(...signatureStyles),
  kind: Schema.String
}).annotations({ identifier: "Source" })
export type SourceView = typeof SourceView.Type

export const DeliveryView = Schema.Struct({
  id: Schema.String.annotations({ description: "Id assigned by the sender." }),
  firstSeenAt: Moment,
  lastSeenAt: Moment,
  redelivered: Schema.Int.annotations({ description: "Number of redeliveries to this process." }),
  outcome: Schema.String,
  job: Schema.NullOr(Schema.Struct({ id: JobId, state: Schema.NullOr(State) }))
}).annotations({ identifier: "Delivery" })

const Deliveries = Schema.Struct({
  deliveries: Schema.Array(DeliveryView),
  complete: Schema.Boolean.annotations({
    description: "False if the job search timed out, so only deliveries remembered by this process are listed."
  })
}).annotations({ identifier: "Deliveries" })

const described = (description: string) => OpenApi.annotations({ description })

export const group = HttpApiGroup.make("bots")
  .add(
    HttpApiEndpoint.get("list", "/bots")
      .addSuccess(
        Schema.Struct({
          since: Moment.annotations({ description: "Start of the counts." }),
          bots: Schema.Array(BotView),
          sources: Schema.Array(SourceView)
        })
      )
      .annotateContext(described("List the bots and sources whose webhooks this process receives."))
  )
  .add(
    HttpApiEndpoint.get("deliveries", "/bots/:slug/deliveries")
      .setPath(Schema.Struct({ slug: Schema.String }))
      .addSuccess(Deliveries)
      .addError(problem(404))
      .annotateContext(described(`List recent deliveries to a bot, newest first: ${lookedAt}.`))
  )
  .add(
    HttpApiEndpoint.get("sourceDeliveries", "/sources/:name/deliveries")
      .setPath(Schema.Struct({ name: Schema.String }))
      .addSuccess(Deliveries)
      .addError(problem(404))
      .annotateContext(described(`List recent deliveries from a source, newest first: ${lookedAt}.`))
  )
