import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, Layer, Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { State } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { type Bot, Bots, type Source } from "../../gateway/Bots.js"
import { kindOf, queueOf, signatureStyles } from "../../gateway/config/Declarations.js"
import { Deliveries, type DeliveryBook } from "../../gateway/Deliveries.js"
import { among, DeliveryLog, type Logged } from "../../gateway/DeliveryLog.js"
import type { JobOverview } from "../../queue/search/JobOverview.js"
import type { JobSearch } from "../../queue/search/JobSearch.js"
import { KeyOrder } from "../../queue/settings/QueueSettings.js"
import { about, apiOf } from "../Contract.js"
import * as Instant from "../Instant.js"
import { NotFound } from "../RequestErrors.js"
import * as ResponseFields from "../ResponseFields.js"

const lookedAt = `deliveries remembered by this process, and jobs among the newest ${among}`

/** Common fields of bots and sources, without secrets and tokens. */
const hook = {
  path: Schema.String.annotations({ description: "Path that receives its webhooks." }),
  counts: Schema.Record({ key: Schema.String, value: Schema.Int }).annotations({
    description: "Number of deliveries to this process by outcome, since it started."
  }),
  lastSeenAt: Schema.NullOr(Instant.Moment)
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
  firstSeenAt: Instant.Moment,
  lastSeenAt: Instant.Moment,
  redelivered: Schema.Int.annotations({ description: "Number of redeliveries to this process." }),
  outcome: Schema.String,
  job: Schema.NullOr(Schema.Struct({ id: JobId, state: Schema.NullOr(State) }))
}).annotations({ identifier: "Delivery" })

const DeliveriesView = Schema.Struct({
  deliveries: Schema.Array(DeliveryView),
  complete: Schema.Boolean.annotations({
    description: "False if the job search timed out, so only deliveries remembered by this process are listed."
  })
}).annotations({ identifier: "Deliveries" })

export const group = HttpApiGroup.make("bots")
  .add(
    HttpApiEndpoint.get("list", "/bots")
      .addSuccess(
        Schema.Struct({
          since: Instant.Moment.annotations({ description: "Start of the counts." }),
          bots: Schema.Array(BotView),
          sources: Schema.Array(SourceView)
        })
      )
      .annotateContext(about("List the bots and sources whose webhooks this process receives."))
  )
  .add(
    HttpApiEndpoint.get("deliveries", "/bots/:slug/deliveries")
      .setPath(Schema.Struct({ slug: Schema.String }))
      .addSuccess(DeliveriesView)
      .annotateContext(about(`List recent deliveries to a bot, newest first: ${lookedAt}.`))
  )
  .add(
    HttpApiEndpoint.get("sourceDeliveries", "/sources/:name/deliveries")
      .setPath(Schema.Struct({ name: Schema.String }))
      .addSuccess(DeliveriesView)
      .annotateContext(about(`List recent deliveries from a source, newest first: ${lookedAt}.`))
  )

const hookOf = (hook: string, { counts, lastSeenAt }: DeliveryBook) => ({
  path: `/hooks/${hook}`,
  counts,
  lastSeenAt: Instant.formatOrNull(lastSeenAt)
})

/** Copies field by field, so no secret can leak. A URL may contain a secret, so only its host is returned. */
const botOf = (bot: Bot, book: DeliveryBook): BotView => {
  const { chatOrder, handler, onError, requireAuth, slug } = bot
  return {
    slug,
    ...hookOf(`telegram/${slug}`, book),
    handler: handler._tag === "Kind" ? handler.kind : handler._tag.toLowerCase(),
    target: handler._tag === "Http" ? handler.url.host : null,
    mode: bot.async ? "async" : "sync",
    requireAuth,
    chatOrder,
    onError,
    queue: bot.async ? queueOf(slug) : null,
    kind: bot.async ? kindOf(slug) : null
  }
}

const sourceOf = ({ kind, name, style }: Source, book: DeliveryBook): SourceView => ({
  name,
  ...hookOf(name, book),
  style,
  kind
})

const deliveryOf = ResponseFields.of(DeliveryView)

const logOf = ({ complete, deliveries }: Logged) => ({
  complete,
  deliveries: deliveries.map(({ job, ...delivery }) => ({
    ...deliveryOf(delivery),
    job: job === undefined ? null : { id: job.id, state: job.state ?? null }
  }))
})

/** Runs the route for a declared name, or fails with `NotFound`. */
const declared = <A>(
  found: A | undefined,
  url: string,
  log: (found: A) => Effect.Effect<Logged, DatabaseError>
): Effect.Effect<Logged, NotFound | DatabaseError> =>
  found === undefined ? new NotFound({ method: "GET", path: url.split("?")[0] ?? "" }) : log(found)

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "bots">,
  never,
  Bots | Deliveries | JobSearch | JobOverview
> = HttpApiBuilder.group(apiOf(group), "bots", (handlers) =>
  Effect.gen(function* () {
    const bots = yield* Bots
    const { book, since } = yield* Deliveries
    const log = yield* DeliveryLog
    return handlers
      .handle("list", () =>
        Effect.sync(() => ({
          since: Instant.format(since),
          bots: bots.all().map((bot) => botOf(bot, book(`telegram/${bot.slug}`))),
          sources: bots.sources().map((source) => sourceOf(source, book(source.name)))
        }))
      )
      .handle("deliveries", ({ path: { slug }, request }) =>
        declared(bots.bot(slug), request.url, log.ofBot).pipe(Effect.map(logOf))
      )
      .handle("sourceDeliveries", ({ path: { name }, request }) =>
        declared(bots.source(name), request.url, log.ofSource).pipe(Effect.map(logOf))
      )
  })
).pipe(Layer.provide(DeliveryLog.layer))
