import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Duration, Effect, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import { JobId } from "../../core/Ids.js"
import { type Endpoint, type EndpointWithSecret, Standing } from "../../queue/endpoints/Endpoint.js"
import { type EndpointChange, Endpoints } from "../../queue/endpoints/Endpoints.js"
import { send } from "../../queue/endpoints/Send.js"
import type { Queue } from "../../queue/Queue.js"
import type { Transactions } from "../../queue/Transactions.js"
import * as Audited from "../access/Audited.js"
import { Caller, seesAll } from "../access/Caller.js"
import * as Deadline from "../access/Deadline.js"
import * as Body from "../Body.js"
import { about, apiOf, idPath, pageLimits, pageQuery } from "../Contract.js"
import * as WireDuration from "../WireDuration.js"
import * as WireText from "../WireText.js"
import * as EndpointView from "./EndpointView.js"

const described = (description: string) => WireText.Text.annotations({ description })
const Types = Schema.Array(WireText.Text).annotations({
  ...WireText.withMessage("must be a list of types"),
  description: "Send only webhooks of these types."
})
const Secret = described("Signing secret: whsec_ and 24 to 64 bytes in base64. Generated if omitted.")

/** Body of `POST /api/v1/endpoints`. */
const EndpointRequest = Schema.Struct({
  url: described("An http or https URL without credentials."),
  customer: WireText.optional(described("Whose endpoint it is: an id of your application.")),
  description: WireText.optional(described("A note for operators.")),
  types: WireText.optional(Types),
  secret: WireText.optional(Secret)
}).annotations(WireText.body("EndpointRequest", "must be an object with the field url"))

/** Body of `PATCH /api/v1/endpoints/{id}`. */
const EndpointPatch = Schema.Struct({
  url: WireText.optional(WireText.Text),
  description: WireText.optional(WireText.Text),
  types: WireText.optional(
    Schema.NullOr(Types).annotations({ ...WireText.withMessage("must be a list of types, or null for all") })
  )
}).annotations(WireText.body("EndpointPatch"))

/** How long the previous secret signs, if the request does not say. */
export const usualKeep = Duration.days(1)

/** Body of `POST /api/v1/endpoints/{id}/rotate`. */
const RotateRequest = Schema.Struct({
  keep: WireText.optional(
    WireDuration.field("How long the previous secrets also sign: 24h, or milliseconds; 24h if omitted.")
  ),
  secret: WireText.optional(Secret)
}).annotations(WireText.body("RotateRequest"))

/** Body of `POST /api/v1/endpoints/send`. */
const SendRequest = Schema.Struct({
  type: described("Type of the webhook, such as order.paid."),
  data: Schema.Unknown.annotations({ description: "A JSON value, up to 1 MiB." }),
  endpoint: WireText.optional(described("Send only to this endpoint.")),
  customer: WireText.optional(described("Send to the endpoints of this customer; those without one if omitted.")),
  subject: WireText.optional(WireText.Subject),
  id: WireText.optional(
    described("Makes the request safe to retry: a second webhook with this id is not sent to the same endpoint.")
  )
}).annotations(WireText.body("SendRequest", "must be an object with the fields type and data"))

const SentView = Schema.Struct({
  id: JobId,
  endpoint: Schema.UUID,
  outcome: Schema.Literal("enqueued", "deduplicated")
}).annotations({ identifier: "Sent" })

const query = Schema.Struct({
  ...pageQuery,
  customer: WireText.optional(described("Endpoints of this customer.")),
  standing: WireText.optional(
    WireText.oneOf(Standing.literals, "Endpoints that work, whose last attempts failed, or to which nothing is sent.")
  )
}).annotations(WireText.strict)

const switching = <const Name extends "enable" | "disable">(name: Name, description: string) =>
  HttpApiEndpoint.post(name, `/endpoints/:id/${name}`)
    .setPath(idPath)
    .addSuccess(EndpointView.EndpointView)
    .annotateContext(about(description, 404))

export const group = HttpApiGroup.make("endpoints")
  .add(
    HttpApiEndpoint.get("list", "/endpoints")
      .setUrlParams(query)
      .addSuccess(
        Schema.Struct({ endpoints: Schema.Array(EndpointView.EndpointView), next: Schema.NullOr(Schema.String) })
      )
      .annotateContext(about("List endpoints of customers, newest first."))
  )
  .add(
    HttpApiEndpoint.post("create", "/endpoints")
      .setPayload(EndpointRequest)
      .addSuccess(EndpointView.EndpointWithSecretView, { status: 201 })
      .annotateContext(about("Create an endpoint. The response has its signing secret, which is not shown again."))
  )
  .add(
    HttpApiEndpoint.post("send", "/endpoints/send")
      .setPayload(SendRequest)
      .addSuccess(Schema.Struct({ sent: Schema.Array(SentView) }), { status: 201 })
      .annotateContext(about("Send a webhook to one endpoint, or to those of a customer that want its type.", 404))
  )
  .add(
    HttpApiEndpoint.get("get", "/endpoints/:id")
      .setPath(idPath)
      .addSuccess(EndpointView.EndpointView)
      .annotateContext(about("Show an endpoint. The filter `key` of the job list shows what was sent to it.", 404))
  )
  .add(
    HttpApiEndpoint.patch("change", "/endpoints/:id")
      .setPath(idPath)
      .setPayload(EndpointPatch)
      .addSuccess(EndpointView.EndpointView)
      .annotateContext(about("Change the URL, the description or the types of an endpoint.", 404))
  )
  .add(
    HttpApiEndpoint.post("rotate", "/endpoints/:id/rotate")
      .setPath(idPath)
      .setPayload(RotateRequest)
      .addSuccess(EndpointView.EndpointWithSecretView)
      .annotateContext(about("Replace the signing secret. Until `keep` has passed, the previous ones also sign.", 404))
  )
  .add(
    switching(
      "disable",
      "Stop sending to an endpoint. Webhooks that become due while it is disabled fail, and can be resent."
    )
  )
  .add(switching("enable", "Send to an endpoint again. To resend what failed, requeue its dead jobs."))
  .add(
    HttpApiEndpoint.del("delete", "/endpoints/:id")
      .setPath(idPath)
      .addSuccess(EndpointView.EndpointView)
      .annotateContext(about("Delete an endpoint and its secrets. Returns the deleted endpoint.", 404))
  )

const maxBodyBytes = 16 * 1024
const maxSendBytes = 2 * 1024 * 1024

const seen = ({ after, before }: EndpointChange) => ({
  before: EndpointView.summaryOf(before),
  after: EndpointView.summaryOf(after)
})

/** Changes of endpoints with their audit entries, for requests and commands. */
export const audited = Effect.gen(function* () {
  const endpoints = yield* Endpoints
  const audited = yield* Audited.make
  return {
    create: (...given: Parameters<typeof endpoints.create>) =>
      endpoints.create(...given).pipe(
        audited(
          "endpoint.create",
          ({ id }) => id,
          (made) => ({ after: EndpointView.summaryOf(made) })
        )
      ),
    change: (...given: Parameters<typeof endpoints.change>) =>
      endpoints.change(...given).pipe(audited("endpoint.change", given[0], seen)),
    rotate: (...given: Parameters<typeof endpoints.rotate>) =>
      endpoints.rotate(...given).pipe(audited("endpoint.rotate", given[0])),
    enable: (...given: Parameters<typeof endpoints.enable>) =>
      endpoints.enable(...given).pipe(audited(given[1] ? "endpoint.enable" : "endpoint.disable", given[0], seen)),
    remove: (id: string) =>
      endpoints
        .remove(id)
        .pipe(audited("endpoint.delete", id, (removed) => ({ before: EndpointView.summaryOf(removed) })))
  }
})

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "endpoints">,
  never,
  Endpoints | Queue | Transactions | Audit
> = HttpApiBuilder.group(apiOf(group), "endpoints", (handlers) =>
  Effect.gen(function* () {
    const endpoints = yield* Endpoints
    const acts = yield* audited
    const services = yield* Effect.context<Endpoints | Queue | Transactions>()
    const shown = (endpoint: Endpoint) =>
      Effect.map(Caller, (caller) => {
        const view = EndpointView.of(endpoint)
        return seesAll(caller) ? view : EndpointView.hidden(view)
      })
    const withSecret = (made: EndpointWithSecret, status: number) =>
      HttpServerResponse.unsafeJson({ ...EndpointView.of(made), secret: made.secret }, { status })

    return handlers
      .handle("list", ({ urlParams: { limit = pageLimits.default, ...request } }) =>
        Effect.gen(function* () {
          const page = yield* endpoints.list({ ...request, limit })
          return { endpoints: yield* Effect.forEach(page.endpoints, shown), next: page.next ?? null }
        })
      )
      .handleRaw("create", ({ request }) =>
        Effect.gen(function* () {
          const given = yield* Body.decoded(request, EndpointRequest, maxBodyBytes)
          return withSecret(yield* acts.create(given), 201)
        })
      )
      .handleRaw("send", ({ request }) =>
        Effect.gen(function* () {
          const { data, id, subject, ...to } = yield* Body.decoded(request, SendRequest, maxSendBytes)
          const sent = yield* Deadline.rolledBackAfter(send(to, data, { id, subject })).pipe(Effect.provide(services))
          return HttpServerResponse.unsafeJson({ sent }, { status: 201 })
        })
      )
      .handle("get", ({ path }) => Effect.flatMap(endpoints.get(path.id), shown))
      .handleRaw("change", ({ path, request }) =>
        Effect.gen(function* () {
          const patch = yield* Body.decoded(request, EndpointPatch, maxBodyBytes)
          return yield* shown((yield* acts.change(path.id, patch)).after)
        })
      )
      .handleRaw("rotate", ({ path, request }) =>
        Effect.gen(function* () {
          const { keep, secret } = yield* Body.decodedIfAny(request, RotateRequest, maxBodyBytes)
          const lasting = keep === undefined ? usualKeep : Duration.millis(keep)
          return withSecret(yield* acts.rotate(path.id, lasting, secret), 200)
        })
      )
      .handle("disable", ({ path }) => Effect.flatMap(acts.enable(path.id, false), ({ after }) => shown(after)))
      .handle("enable", ({ path }) => Effect.flatMap(acts.enable(path.id, true), ({ after }) => shown(after)))
      .handle("delete", ({ path }) => Effect.flatMap(acts.remove(path.id), shown))
  })
)
