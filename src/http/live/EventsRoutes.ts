import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer } from "effect"
import { Api } from "../Api.js"
import { Caller } from "../access/Caller.js"
import * as Problem from "../Problem.js"
import { Live } from "./Live.js"

const headers = {
  "content-type": "text/event-stream",
  // Proxies must not buffer or transform the stream.
  "cache-control": "no-store, no-transform",
  "x-accel-buffering": "no",
  // No keep-alive: an idle connection would delay the server's shutdown.
  connection: "close"
}

export const layer: Layer.Layer<HttpApiGroup.ApiGroup<"nightshift", "events">, never, Live> = HttpApiBuilder.group(
  Api,
  "events",
  (handlers) =>
    Effect.map(Live, (live) =>
      handlers.handleRaw("follow", ({ request, urlParams: { jobs } }) =>
        request.method === "HEAD"
          ? Effect.succeed(HttpServerResponse.empty({ status: 200, headers }))
          : Caller.pipe(
              Effect.flatMap(({ session }) => live.follow(session, { jobs: jobs !== "none" })),
              Effect.map((events) => HttpServerResponse.raw(events, { headers })),
              Problem.catchErrors
            )
      )
    )
)
