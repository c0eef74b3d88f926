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
  shape: Schema.String.annotations({ description: "The first line of their errors, with numbers and ids as #." }),
  count: Schema.Int,
  firstAt: Moment,
  lastAt: Moment,
  sample: Schema.Struct({ id: JobId, error: Schema.NullOr(Schema.String) }),
  filter: Schema.Unknown.annotations({
    description: "What these jobs are found by, for a list or an act on all of them."
  })
}).annotations({ identifier: "DeadGroup" })

/** Jobs that went the same way. */
export const group = HttpApiGroup.make("groups").add(
  HttpApiEndpoint.get("dead", "/jobs/groups")
    .setUrlParams(
      Schema.Struct({
        state: WireText.optional(
          Schema.Literal("dead").annotations(WireText.said("must be dead: only dead jobs are grouped"))
        ),
        queue: WireText.optional(WireText.Text)
      }).annotations(WireText.strict)
    )
    .addSuccess(
      Schema.Struct({
        groups: Schema.Array(GroupView),
        looked: Schema.Int.annotations({ description: "How many jobs were looked at, the newest first." }),
        sampled: Schema.Boolean.annotations({ description: "Whether there are older ones that were not." })
      })
    )
    .addError(problem(400))
    .annotateContext(
      OpenApi.annotations({ description: "Dead jobs by kind, reason and what their errors have in common." })
    )
)
