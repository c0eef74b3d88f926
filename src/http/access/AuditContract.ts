import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { Moment, pageQuery, problem } from "../Contract.js"
import { Instant } from "../Instant.js"
import * as WireText from "../WireText.js"

const EntryView = Schema.Struct({
  id: Schema.String,
  at: Moment,
  who: Schema.String.annotations({ description: "`api:`, `ui:` or `cli:` followed by the role or name." }),
  act: Schema.String,
  target: Schema.String,
  reason: Schema.NullOr(Schema.String),
  before: Schema.Unknown,
  after: Schema.Unknown
}).annotations({ identifier: "AuditEntry" })

export const group = HttpApiGroup.make("audit").add(
  HttpApiEndpoint.get("list", "/audit")
    .setUrlParams(
      Schema.Struct({
        who: WireText.optional(WireText.Text),
        act: WireText.optional(
          WireText.Text.annotations({ description: "An action like `job.cancel`, or its prefix `job`." })
        ),
        target: WireText.optional(WireText.Text.annotations({ description: "Id or name of the changed object." })),
        since: WireText.optional(Instant),
        until: WireText.optional(Instant),
        ...pageQuery
      }).annotations(WireText.strict)
    )
    .addSuccess(Schema.Struct({ entries: Schema.Array(EntryView), next: Schema.NullOr(Schema.String) }))
    .addError(problem(400))
    .annotateContext(OpenApi.annotations({ description: "List changes made by operators, newest first." }))
)
