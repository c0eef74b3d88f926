import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Duration, Effect, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import * as DurationText from "../../core/DurationText.js"
import { Transactions } from "../../queue/Transactions.js"
import type { LimitState } from "../../rate-limits/Limit.js"
import { RateLimits } from "../../rate-limits/RateLimits.js"
import * as Audited from "../access/Audited.js"
import * as Body from "../Body.js"
import { about, apiOf } from "../Contract.js"
import { Instant } from "../Instant.js"
import * as WireDuration from "../WireDuration.js"
import * as WireText from "../WireText.js"

const Numbers = { capacity: Schema.Number, rate: Schema.Number.annotations({ description: "Tokens per second." }) }

export const LimitView = Schema.Struct({
  scope: Schema.String,
  ...Numbers,
  tokens: Schema.Number.annotations({ description: "Tokens in the bucket now." }),
  lent: Schema.Number.annotations({ description: "Tokens that processes have reserved and not yet used." }),
  dryUntil: Schema.NullOr(Instant).annotations({ description: "The bucket is not refilled before this time." }),
  tuned: Schema.Boolean.annotations({ description: "Whether an operator has overridden the declared values." }),
  declared: Schema.Struct(Numbers).annotations({ description: "Values declared in code." })
}).annotations({ identifier: "Limit" })
export type LimitView = typeof LimitView.Type

const NumberOrNull = Schema.NullOr(Schema.Number).annotations({
  ...WireText.withMessage("must be a number, or null to use the value declared in code"),
  jsonSchema: { type: ["number", "null"] }
})

/** Body of `PATCH /api/v1/limits/{scope}`. The limits validate the values. */
const TuneRequest = Schema.Struct({
  capacity: WireText.optional(NumberOrNull),
  rate: WireText.optional(NumberOrNull)
}).annotations(WireText.body("TuneRequest", "must be an object with capacity or rate"))

/** Body of `POST /api/v1/limits/{scope}/drain`. May be omitted. */
const DrainRequest = Schema.Struct({
  duration: WireText.optional(
    WireDuration.field("How long the bucket is not refilled: 30s, 5m, or milliseconds; 0 if omitted.")
  )
}).annotations(WireText.body("DrainRequest"))

const path = Schema.Struct({ scope: Schema.String })

export const group = HttpApiGroup.make("limits")
  .add(
    HttpApiEndpoint.get("list", "/limits")
      .addSuccess(Schema.Struct({ limits: Schema.Array(LimitView) }))
      .annotateContext(about("List all rate limits with the state of their buckets."))
  )
  .add(
    HttpApiEndpoint.patch("tune", "/limits/:scope")
      .setPath(path)
      .setPayload(TuneRequest)
      .addSuccess(LimitView)
      .annotateContext(about("Override a limit's declared values. `null` restores the declared value."))
  )
  .add(
    HttpApiEndpoint.post("drain", "/limits/:scope/drain")
      .setPath(path)
      .setPayload(DrainRequest)
      .addSuccess(LimitView)
      .annotateContext(about("Empty the bucket and stop refilling it for a while."))
  )

const maxBodyBytes = 16 * 1024

const viewOf = ({ dryUntil, ...state }: LimitState): LimitView => ({ ...state, dryUntil: dryUntil ?? null })

/** A limit as stored in the audit log: the fields that operators set. */
const summaryOf = ({ capacity, rate, tuned }: LimitState) => ({ capacity, rate, tuned })

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "limits">,
  never,
  RateLimits | Transactions | Audit
> = HttpApiBuilder.group(apiOf(group), "limits", (handlers) =>
  Effect.gen(function* () {
    const limits = yield* RateLimits
    const transactions = yield* Transactions
    const audited = yield* Audited.make

    /** Draining a bucket does not roll back with the transaction, so the audit entry is written first. */
    const drain = (scope: string, duration: Duration.Duration) =>
      transactions.run(
        Effect.gen(function* () {
          yield* limits.get(scope).pipe(
            audited("limit.drain", scope, ({ tokens }) => ({
              before: { tokens },
              after: { tokens: 0, duration: DurationText.format(duration) }
            }))
          )
          return yield* limits.drain(scope, duration)
        })
      )

    return handlers
      .handle("list", () => Effect.map(limits.all, (states) => ({ limits: states.map(viewOf) })))
      .handleRaw("tune", ({ path, request }) =>
        Effect.gen(function* () {
          const patch = yield* Body.decoded(request, TuneRequest, maxBodyBytes)
          const { after } = yield* limits.tune(path.scope, patch).pipe(
            audited("limit.tune", path.scope, ({ after, before }) => ({
              before: summaryOf(before),
              after: summaryOf(after)
            }))
          )
          return viewOf(after)
        })
      )
      .handleRaw("drain", ({ path, request }) =>
        Effect.gen(function* () {
          const { duration = 0 } = yield* Body.decodedIfAny(request, DrainRequest, maxBodyBytes)
          return viewOf(yield* drain(path.scope, Duration.millis(duration)))
        })
      )
  })
)
