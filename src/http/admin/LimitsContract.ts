import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { about, problems } from "../Contract.js"
import { Instant } from "../Instant.js"
import * as WireText from "../WireText.js"

const Numbers = { capacity: Schema.Number, rate: Schema.Number.annotations({ description: "Tokens per second." }) }

const LimitView = Schema.Struct({
  scope: Schema.String,
  ...Numbers,
  tokens: Schema.Number.annotations({ description: "What is in the bucket now." }),
  lent: Schema.Number.annotations({ description: "What pods took ahead and may still use." }),
  dryUntil: Schema.NullOr(Instant).annotations({ description: "No token comes in before this instant." }),
  tuned: Schema.Boolean.annotations({ description: "Whether an operator's word stands against the code's." }),
  declared: Schema.Struct(Numbers).annotations({ description: "What the code says." })
}).annotations({ identifier: "Limit" })
export type LimitView = typeof LimitView.Type

const NumberOrNull = Schema.NullOr(Schema.Number).annotations({
  ...WireText.said("must be a number, or null for the code's own"),
  jsonSchema: { type: ["number", "null"] }
})

/** What `PATCH /api/v1/limits/{scope}` takes. What makes a limit is the limits' to say. */
export const TuneRequest = Schema.Struct({
  capacity: WireText.optional(NumberOrNull),
  rate: WireText.optional(NumberOrNull)
}).annotations({
  identifier: "TuneRequest",
  message: () => "must be an object with capacity or rate",
  ...WireText.strict
})

/** What `POST /api/v1/limits/{scope}/drain` takes, or nothing at all. */
export const DrainRequest = Schema.Struct({
  seconds: WireText.optional(
    Schema.NonNegative.annotations({
      ...WireText.said("must be a number of seconds"),
      description: "How long nothing comes in; at once when absent."
    })
  )
}).annotations({ identifier: "DrainRequest", message: () => "must be an object", ...WireText.strict })

const path = Schema.Struct({ scope: Schema.String })

export const group = HttpApiGroup.make("limits")
  .add(
    HttpApiEndpoint.get("list", "/limits")
      .addSuccess(Schema.Struct({ limits: Schema.Array(LimitView) }))
      .annotateContext(about("Every scope with what is in its bucket."))
  )
  .add(
    HttpApiEndpoint.patch("tune", "/limits/:scope")
      .setPath(path)
      .setPayload(TuneRequest)
      .addSuccess(LimitView)
      .addError(problems(400, 404, 415))
      .annotateContext(about("Change what holds, against the code's word. `null` gives the code its word back."))
  )
  .add(
    HttpApiEndpoint.post("drain", "/limits/:scope/drain")
      .setPath(path)
      .setPayload(DrainRequest)
      .addSuccess(LimitView)
      .addError(problems(400, 404))
      .annotateContext(about("Empty the bucket, and keep it empty for so long."))
  )
