import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer, Schema } from "effect"
import { Caller, seesAll } from "../access/Caller.js"
import { about, apiOf } from "../Contract.js"
import * as WireText from "../WireText.js"
import { headers } from "./EventStreams.js"
import { Live } from "./Live.js"

export const group = HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("follow", "/events")
    .setUrlParams(
      Schema.Struct({
        jobs: WireText.optional(
          Schema.Literal("all", "none").annotations({
            description:
              "`none` leaves the jobs out of `snapshot` and `jobs`, for clients that load what they show when something changes. Default `all`."
          })
        )
      }).annotations(WireText.strict)
    )
    .addSuccess(HttpApiSchema.Text({ contentType: "text/event-stream" }))
    .annotateContext(
      about(
        "Stream server-sent events. The first is `snapshot` (queues, countedAt, measuredAt, pods, jobs, sampled, warnings), followed by changes: `queues` (changed, gone, countedAt, measuredAt), `pods`, `jobs` (jobs, sampled), `warnings`. A queue is not sent again because its oldest due job became older: `oldestDueAt` says when that job became due. A `heartbeat` (at, database: `up` or `down`, countedAt, measuredAt) follows the snapshot and then comes every 5 s. A reconnect starts with a new snapshot."
      )
    )
)

export const layer: Layer.Layer<HttpApiGroup.ApiGroup<"nightshift", "events">, never, Live> = HttpApiBuilder.group(
  apiOf(group),
  "events",
  (handlers) =>
    Effect.map(Live, (live) =>
      handlers.handleRaw("follow", ({ request, urlParams: { jobs } }) =>
        request.method === "HEAD"
          ? Effect.succeed(HttpServerResponse.empty({ status: 200, headers }))
          : Caller.pipe(
              Effect.flatMap((caller) =>
                live.follow(caller.session, { jobs: jobs !== "none", seesAll: seesAll(caller) })
              ),
              Effect.map((events) => HttpServerResponse.raw(events, { headers }))
            )
      )
    )
)
