import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { Action, mostIds, OperationStatus } from "../../queue/admin/Operations.js"
import { idPath, Moment, pageQuery, problem, Total } from "../Contract.js"
import * as WireText from "../WireText.js"
import * as JobsFilter from "./JobsFilter.js"
import { JobView } from "./JobView.js"

/** What `POST /api/v1/jobs/bulk` takes. */
export const BulkRequest = Schema.Struct({
  action: Action.annotations(WireText.said(`must be one of ${Action.literals.join(", ")}`)),
  ids: WireText.optional(
    Schema.Array(JobId.annotations(WireText.said("must be the id of a job"))).annotations({
      message: () => "must be a list of ids",
      description: `1 to ${mostIds} ids; or give a filter.`
    })
  ),
  filter: WireText.optional(JobsFilter.Body),
  dryRun: WireText.optional(
    Schema.Boolean.annotations({
      ...WireText.said("must be true or false"),
      description: "Change nothing; say how many jobs it would be about, and show the first."
    })
  ),
  reason: WireText.optional(WireText.Text)
}).annotations({
  identifier: "BulkRequest",
  message: () => "must be an object with action, and ids or filter",
  ...WireText.strict
})
export type BulkRequest = typeof BulkRequest.Type

const Preview = Schema.Struct({ matched: Total, sample: Schema.Array(JobView) }).annotations({
  identifier: "BulkPreview"
})

const Begun = Schema.Struct({ operation: Schema.String }).annotations({ identifier: "BulkBegun" })

export const OperationView = Schema.Struct({
  id: Schema.String,
  action: Action,
  status: OperationStatus,
  who: Schema.String,
  reason: Schema.NullOr(Schema.String),
  filter: Schema.NullOr(Schema.Unknown).annotations({ description: "Null where jobs were named one by one." }),
  createdAt: Moment,
  updatedAt: Moment,
  finishedAt: Schema.NullOr(Moment),
  total: Schema.NullOr(Total).annotations({ description: "How many jobs it was about when it began, if counted." }),
  done: Schema.Int,
  skipped: Schema.Record({ key: Schema.String, value: Schema.Int }).annotations({
    description: "Jobs to which it could not be done, by why: their state, not_found, dedupe_key_held or locked."
  }),
  failed: Schema.Int,
  error: Schema.NullOr(Schema.String)
}).annotations({ identifier: "Operation" })
export type OperationView = typeof OperationView.Type

/** Acts on many jobs. */
export const group = HttpApiGroup.make("operations")
  .add(
    HttpApiEndpoint.post("bulk", "/jobs/bulk")
      .setPayload(BulkRequest)
      .addSuccess(Preview)
      .addSuccess(Begun, { status: 202 })
      .addError(problem(400))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(
        OpenApi.annotations({
          description:
            "Act on many jobs, in the background. A filter without states means those the action is for; requeue means dead ones. It covers only jobs that stood when it began."
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/operations")
      .setUrlParams(Schema.Struct(pageQuery).annotations(WireText.strict))
      .addSuccess(Schema.Struct({ operations: Schema.Array(OperationView), next: Schema.NullOr(Schema.String) }))
      .addError(problem(400))
      .annotateContext(OpenApi.annotations({ description: "A page of operations, newest first." }))
  )
  .add(
    HttpApiEndpoint.get("get", "/operations/:id")
      .setPath(idPath)
      .addSuccess(OperationView)
      .addError(problem(404))
      .annotateContext(OpenApi.annotations({ description: "How far an operation has come, and how it ended." }))
  )
  .add(
    HttpApiEndpoint.post("cancel", "/operations/:id/cancel")
      .setPath(idPath)
      .addSuccess(OperationView)
      .addError(problem(404))
      .annotateContext(OpenApi.annotations({ description: "End it before its next batch; what was done stays done." }))
  )
