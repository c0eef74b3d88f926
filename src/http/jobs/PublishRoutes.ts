import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import type { Idempotency } from "../../access/Idempotency.js"
import { JobId } from "../../core/Ids.js"
import * as EventData from "../../queue/events/EventData.js"
import { Events, maxEventPage } from "../../queue/events/Events.js"
import { Kinds } from "../../queue/Kinds.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import * as Deadline from "../access/Deadline.js"
import * as Masked from "../access/Masked.js"
import * as Body from "../Body.js"
import { about, apiOf, idPath, pageLimits, pageQuery } from "../Contract.js"
import * as WireText from "../WireText.js"
import * as EventView from "./EventView.js"
import * as OncePerKey from "./OncePerKey.js"

// Not under /events, which streams changes to jobs and queues.

/** Body of `POST /api/v1/publish`. */
const PublishRequest = Schema.Struct({
  name: WireText.Text.annotations({ description: "Name of the event." }),
  data: Schema.Unknown.annotations({ description: "A JSON value of up to 64 KiB, the payload of the event's jobs." }),
  key: WireText.optional(WireText.Text.annotations({ description: "Key of the event's jobs." })),
  subject: WireText.optional(WireText.Subject),
  id: WireText.optional(
    WireText.Text.annotations({
      description: "Makes the request safe to retry: a second event of this name with the same id is not stored."
    })
  )
}).annotations(WireText.body("PublishRequest", "must be an object with the fields name and data"))

/** Body of `POST /api/v1/published/{id}/replay`. */
const ReplayRequest = Schema.Struct({
  subscriber: WireText.Text.annotations({ description: "The subscriber that gets the event again." })
}).annotations(WireText.body("ReplayRequest", "must be an object with the field subscriber"))

const Published = Schema.Struct({
  id: Schema.UUID.annotations({ description: "The event; the first one if it was published before." }),
  outcome: Schema.Literal("published", "repeated"),
  jobs: Schema.Int.annotations({ description: "Jobs that were stored, one for each subscriber." })
}).annotations({ identifier: "Published" })

const subscriptionPath = Schema.Struct({ event: Schema.String, subscriber: Schema.String })

export const group = HttpApiGroup.make("published")
  .add(
    HttpApiEndpoint.post("publish", "/publish")
      .setHeaders(OncePerKey.headers)
      .setPayload(PublishRequest)
      .addSuccess(Published, { status: 201 })
      .annotateContext(about("Publish an event: it is stored, with one job for each of its subscribers.", 422))
  )
  .add(
    HttpApiEndpoint.get("list", "/published")
      .setUrlParams(
        Schema.Struct({
          ...pageQuery,
          name: WireText.optional(WireText.Text.annotations({ description: "Only events with this name." }))
        }).annotations(WireText.strict)
      )
      .addSuccess(Schema.Struct({ events: Schema.Array(EventView.EventView), next: Schema.NullOr(Schema.String) }))
      .annotateContext(about("List published events, newest first."))
  )
  .add(
    HttpApiEndpoint.get("get", "/published/:id")
      .setPath(idPath)
      .addSuccess(EventView.EventDetailsView)
      .annotateContext(about("Show an event and the jobs of its subscribers.", 404))
  )
  .add(
    HttpApiEndpoint.post("replay", "/published/:id/replay")
      .setPath(idPath)
      .setPayload(ReplayRequest)
      .addSuccess(Schema.Struct({ id: JobId }), { status: 201 })
      .annotateContext(about("Enqueue another job of the event for one subscriber.", 404))
  )
  .add(
    HttpApiEndpoint.get("subscriptions", "/subscriptions")
      .addSuccess(Schema.Struct({ subscriptions: Schema.Array(EventView.SubscriptionView) }))
      .annotateContext(about("List the subscribers of all events."))
  )
  .add(
    HttpApiEndpoint.del("unsubscribe", "/subscriptions/:event/:subscriber")
      .setPath(subscriptionPath)
      .annotateContext(
        about("Remove a subscriber that no process declares any more. A process that declares it adds it again.", 404)
      )
  )

const maxBodyBytes = 128 * 1024

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "published">,
  never,
  Events | Kinds | Transactions | Audit | Idempotency | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "published", (handlers) =>
  Effect.gen(function* () {
    const events = yield* Events
    const kinds = yield* Kinds
    const context = yield* Effect.context<Idempotency | Transactions>()
    const audited = yield* Audited.make
    const masked = yield* Masked.make
    const hidden = <A extends { readonly data: unknown }>(event: A) =>
      masked.view(event, (whole, mask) => ({ ...whole, data: mask.json(whole.data) }))
    return handlers
      .handleRaw("publish", ({ request }) =>
        Effect.gen(function* () {
          const key = yield* OncePerKey.keyOf(request)
          const event = yield* Body.decoded(request, PublishRequest, maxBodyBytes)
          const publish = EventData.check(events, kinds, event).pipe(
            Effect.zipRight(events.publish([event])),
            Effect.map(([published]) => published)
          )
          const published = yield* Deadline.rolledBackAfter(
            key === undefined ? publish : OncePerKey.run(key, JSON.stringify({ publish: event }), () => publish)
          )
          return HttpServerResponse.unsafeJson(published, { status: 201 })
        }).pipe(Effect.provide(context))
      )
      .handle("list", ({ urlParams: { cursor, limit = pageLimits.default, name } }) =>
        Effect.gen(function* () {
          const page = yield* events.list({ limit: Math.min(limit, maxEventPage), cursor, name })
          const shown = yield* Effect.forEach(page.events, (event) => hidden(EventView.of(event)))
          return { events: shown, next: page.next ?? null }
        })
      )
      .handle("get", ({ path }) => Effect.flatMap(events.get(path.id), (event) => hidden(EventView.ofDetails(event))))
      .handleRaw("replay", ({ path, request }) =>
        Effect.gen(function* () {
          const { subscriber } = yield* Body.decoded(request, ReplayRequest, maxBodyBytes)
          const id = yield* events
            .replay(path.id, subscriber)
            .pipe(audited("event.replay", path.id, (job) => ({ after: { subscriber, job } })))
          return HttpServerResponse.unsafeJson({ id }, { status: 201 })
        })
      )
      .handle("subscriptions", () =>
        Effect.map(events.subscriptions, (all) => ({ subscriptions: all.map(EventView.ofSubscription) }))
      )
      .handle("unsubscribe", ({ path: { event, subscriber } }) =>
        events.unsubscribe(event, subscriber).pipe(
          audited("event.unsubscribe", event, () => ({ before: { subscriber } })),
          Effect.asVoid
        )
      )
  })
)
