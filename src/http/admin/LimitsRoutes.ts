import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Duration, Effect, type Layer } from "effect"
import type { Audit } from "../../access/Audit.js"
import type { LimitState } from "../../limits/Limit.js"
import { RateLimits } from "../../limits/RateLimits.js"
import { Transactions } from "../../queue/Transactions.js"
import { Api } from "../Api.js"
import * as Audited from "../access/Audited.js"
import * as Body from "../Body.js"
import * as Problem from "../Problem.js"
import { DrainRequest, type LimitView, TuneRequest } from "./LimitsContract.js"

const mostBodyBytes = 16 * 1024

const viewOf = ({ dryUntil, ...state }: LimitState): LimitView => ({ ...state, dryUntil: dryUntil ?? null })

/** A limit as stored in the audit log: the fields that operators set. */
const summaryOf = ({ capacity, rate, tuned }: LimitState) => ({ capacity, rate, tuned })

/** The body is optional. */
const isEmpty = ({ headers }: HttpServerRequest.HttpServerRequest) =>
  headers["content-type"] === undefined && (headers["content-length"] ?? "0") === "0"

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "limits">,
  never,
  RateLimits | Transactions | Audit
> = HttpApiBuilder.group(Api, "limits", (handlers) =>
  Effect.gen(function* () {
    const limits = yield* RateLimits
    const transactions = yield* Transactions
    const audited = yield* Audited.make

    /** Draining a bucket does not roll back with the transaction, so the audit entry is written first. */
    const drain = (scope: string, seconds: number) =>
      transactions.run(
        Effect.gen(function* () {
          yield* limits
            .get(scope)
            .pipe(
              audited("limit.drain", scope, ({ tokens }) => ({ before: { tokens }, after: { tokens: 0, seconds } }))
            )
          return yield* limits.drain(scope, Duration.seconds(seconds))
        })
      )

    return handlers
      .handle("list", () => Problem.catchErrors(Effect.map(limits.all, (states) => ({ limits: states.map(viewOf) }))))
      .handleRaw("tune", ({ path, request }) =>
        Effect.gen(function* () {
          const patch = yield* Body.decoded(request, TuneRequest, mostBodyBytes)
          const { after } = yield* limits.tune(path.scope, patch).pipe(
            audited("limit.tune", path.scope, ({ after, before }) => ({
              before: summaryOf(before),
              after: summaryOf(after)
            }))
          )
          return viewOf(after)
        }).pipe(Problem.catchErrors)
      )
      .handleRaw("drain", ({ path, request }) =>
        Effect.gen(function* () {
          const { seconds = 0 } = isEmpty(request) ? {} : yield* Body.decoded(request, DrainRequest, mostBodyBytes)
          return viewOf(yield* drain(path.scope, seconds))
        }).pipe(Problem.catchErrors)
      )
  })
)
