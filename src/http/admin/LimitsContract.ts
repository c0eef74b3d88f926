import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { about, problems } from "../Contract.js"
import { Instant } from "../Instant.js"
import * as WireText from "../WireText.js"

const Numbers = { capacity: Schema.Number, rate: Schema.Number.annotations({ description: "Tokens per second." }) }

export const LimitView = Schema.Struct({
  scope: Schema.String,
  ...Numbers,
  tokens: Schema.Number.annotations({ description: "Tokens in the bucket now." }),
  lent: Schema.Number.annotations({ description: "Tokens that pods have reserved and not yet used." }),
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
export const TuneRequest = Schema.Struct({
  capacity: WireText.optional(NumberOrNull),
  rate: WireText.optional(NumberOrNull)
}).annotations({
  identifier: "TuneRequest",
  message: () => "must be an object with capacity or rate",
  ...WireText.strict
})

/** Body of `POST /api/v1/limits/{scope}/drain`. May be omitted. */
export const DrainRequest = Schema.Struct({
  seconds: WireText.optional(
    Schema.NonNegative.annotations({
      ...WireText.withMessage("must be a number of seconds"),
      description: "How long the bucket is not refilled; 0 if omitted."
    })
  )
}).annotations({ identifier: "DrainRequest", message: () => "must be an object", ...WireText.strict })

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
      .addError(problems(400, 404, 415))
      .annotateContext(about("Override a limit's declared values. `null` restores the declared value."))
  )
  .add(
    HttpApiEndpoint.post("drain", "/limits/:scope/drain")
      .setPath(path)
      .setPayload(DrainRequest)
      .addSuccess(LimitView)
      .addError(problems(400, 404))
      .annotateContext(about("Empty the bucket and stop refilling it for a while."))
  )
