import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { DeadReason } from "../../core/StoredJob.js"
import { Moment, problem } from "../Contract.js"
import * as WireText from "../WireText.js"

const GroupView = Schema.Struct({
  kind: Schema.String,
  deadReason: DeadReason,
  shape: Schema.String.annotations({ description: "First line of the errors, with numbers and ids replaced by #." }),
  count: Schema.Int,
  firstAt: Moment,
  lastAt: Moment,
  sample: Schema.Struct({ id: JobId, error: Schema.NullOr(Schema.String) }),
  filter: Schema.Unknown.annotations({
    description: "Filter that matches these jobs, for a list or a bulk action."
  })
}).annotations({ identifier: "DeadGroup" })

export const group = HttpApiGroup.make("groups").add(
  HttpApiEndpoint.get("dead", "/jobs/groups")
    .setUrlParams(
      Schema.Struct({
        state: WireText.optional(
          Schema.Literal("dead").annotations(WireText.withMessage("must be dead: only dead jobs are grouped"))
        ),
        queue: WireText.optional(WireText.Text)
      }).annotations(WireText.strict)
    )
    .addSuccess(
      Schema.Struct({
        groups: Schema.Array(GroupView),
        looked: Schema.Int.annotations({ description: "Number of jobs examined, newest first." }),
        sampled: Schema.Boolean.annotations({ description: "Whether older dead jobs were not examined." })
      })
    )
    .addError(problem(400))
    .annotateContext(OpenApi.annotations({ description: "Group dead jobs by kind, reason and error shape." }))
)
