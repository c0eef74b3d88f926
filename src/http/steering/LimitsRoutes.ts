import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Duration, Effect, type Layer, ParseResult, Schema } from "effect"
import type { LimitState } from "../../limits/Limit.js"
import { RateLimits } from "../../limits/RateLimits.js"
import { Api } from "../Api.js"
import * as Body from "../Body.js"
import * as Problem from "../Problem.js"
import * as RequestFault from "../RequestFault.js"
import { DrainRequest, type LimitView, TuneRequest } from "./LimitsContract.js"

const mostBodyBytes = 16 * 1024

const viewOf = ({ dryUntil, ...state }: LimitState): LimitView => ({ ...state, dryUntil: dryUntil ?? null })

const decoded = <A, I>(schema: Schema.Schema<A, I>, body: unknown) =>
  Effect.mapError(Schema.decodeUnknown(schema)(body), (error) =>
    RequestFault.ofIssues(ParseResult.ArrayFormatter.formatErrorSync(error))
  )

/** Nothing at all is a request, too. */
const bodyOrNothing = (request: HttpServerRequest.HttpServerRequest) =>
  request.headers["content-type"] === undefined && (request.headers["content-length"] ?? "0") === "0"
    ? Effect.succeed({})
    : Body.json(request, mostBodyBytes)

/** Limits: see what is in the buckets, tune them, drain one. */
export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "limits">,
  never,
  RateLimits
> = HttpApiBuilder.group(Api, "limits", (handlers) =>
  Effect.map(RateLimits, (limits) =>
    handlers
      .handle("list", () => Problem.answered(Effect.map(limits.all, (states) => ({ limits: states.map(viewOf) }))))
      .handleRaw("tune", ({ path, request }) =>
        Effect.gen(function* () {
          const patch = yield* decoded(TuneRequest, yield* Body.json(request, mostBodyBytes))
          return viewOf((yield* limits.tune(path.scope, patch)).after)
        }).pipe(Problem.answered)
      )
      .handleRaw("drain", ({ path, request }) =>
        Effect.gen(function* () {
          const { seconds = 0 } = yield* decoded(DrainRequest, yield* bodyOrNothing(request))
          return viewOf(yield* limits.drain(path.scope, Duration.seconds(seconds)))
        }).pipe(Problem.answered)
      )
  )
)
