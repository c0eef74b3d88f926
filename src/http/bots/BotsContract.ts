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

const lookedAt = `what this process remembers, and jobs among the newest ${among.toLocaleString("en")}`

/** What both have in common. Secrets and tokens are no part of it. */
const hook = {
  path: Schema.String.annotations({ description: "Where its webhooks are delivered to." }),
  counts: Schema.Record({ key: Schema.String, value: Schema.Int }).annotations({
    description: "How many deliveries came to which end at this process, since it started."
  }),
  lastSeenAt: Schema.NullOr(Moment)
}

export const BotView = Schema.Struct({
  slug: Schema.String,
  ...hook,
  handler: Schema.String.annotations({ description: "echo, http, auth, or a kind." }),
  target: Schema.NullOr(Schema.String).annotations({ description: "The host that an http handler asks." }),
  mode: Schema.Literal("sync", "async"),
  requireAuth: Schema.Boolean,
  chatOrder: KeyOrder,
  onError: Schema.Literal("apologize", "redeliver"),
  queue: Schema.NullOr(Schema.String).annotations({ description: "Where an async bot's jobs wait." }),
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

const DeliveryView = Schema.Struct({
  id: Schema.String.annotations({ description: "What its sender calls it." }),
  firstSeenAt: Moment,
  lastSeenAt: Moment,
  redelivered: Schema.Int.annotations({ description: "How often it came again, as far as this process saw it." }),
  outcome: Schema.String,
  job: Schema.NullOr(Schema.Struct({ id: JobId, state: Schema.NullOr(State) }))
}).annotations({ identifier: "Delivery" })

const Deliveries = Schema.Struct({
  deliveries: Schema.Array(DeliveryView),
  complete: Schema.Boolean.annotations({
    description: "False when looking for jobs took too long: then only what this process remembers is listed."
  })
}).annotations({ identifier: "Deliveries" })

const described = (description: string) => OpenApi.annotations({ description })

/** Bots, and others that send webhooks. */
export const group = HttpApiGroup.make("bots")
  .add(
    HttpApiEndpoint.get("list", "/bots")
      .addSuccess(
        Schema.Struct({
          since: Moment.annotations({ description: "Since when this process counts." }),
          bots: Schema.Array(BotView),
          sources: Schema.Array(SourceView)
        })
      )
      .annotateContext(described("The bots and sources that this process receives webhooks for."))
  )
  .add(
    HttpApiEndpoint.get("deliveries", "/bots/:slug/deliveries")
      .setPath(Schema.Struct({ slug: Schema.String }))
      .addSuccess(Deliveries)
      .addError(problem(404))
      .annotateContext(described(`What was delivered to a bot lately, the newest first: ${lookedAt}.`))
  )
  .add(
    HttpApiEndpoint.get("sourceDeliveries", "/sources/:name/deliveries")
      .setPath(Schema.Struct({ name: Schema.String }))
      .addSuccess(Deliveries)
      .addError(problem(404))
      .annotateContext(described(`What was delivered by a source lately, the newest first: ${lookedAt}.`))
  )
