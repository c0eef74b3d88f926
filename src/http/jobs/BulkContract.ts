import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { Action, mostIds, OperationAction, OperationStatus } from "../../queue/admin/Operations.js"
import { idPath, Moment, pageQuery, problem, Total } from "../Contract.js"
import * as WireText from "../WireText.js"
import * as JobsFilter from "./JobsFilter.js"
import { JobView } from "./JobView.js"

/** Body of `POST /api/v1/jobs/bulk`. */
export const BulkRequest = Schema.Struct({
  action: Action.annotations(WireText.withMessage(`must be one of ${Action.literals.join(", ")}`)),
  ids: WireText.optional(
    Schema.Array(JobId.annotations(WireText.withMessage("must be a job id"))).annotations({
      message: () => "must be a list of ids",
      description: `1 to ${mostIds} job ids. Use either ids or filter.`
    })
  ),
  filter: WireText.optional(JobsFilter.Body),
  dryRun: WireText.optional(
    Schema.Boolean.annotations({
      ...WireText.withMessage("must be true or false"),
      description: "Change nothing; return the number of matching jobs and the first of them."
    })
  ),
  reason: WireText.optional(WireText.Text)
}).annotations({
  identifier: "BulkRequest",
  message: () => "must be an object with action, and ids or filter",
  ...WireText.strict
})
export type BulkRequest = typeof BulkRequest.Type

const Preview = Schema.Struct({
  matched: Total,
  sample: Schema.Array(JobView),
  undoable: Schema.Boolean.annotations({
    description:
      "Whether the operation can be undone within one hour. Running jobs that were stopped cannot be restored."
  })
}).annotations({
  identifier: "BulkPreview"
})

const Begun = Schema.Struct({ operation: Schema.String }).annotations({ identifier: "BulkBegun" })

export const OperationView = Schema.Struct({
  id: Schema.String,
  action: OperationAction,
  undoes: Schema.NullOr(Schema.String).annotations({ description: "The operation that this one undoes." }),
  undoable: Schema.Boolean.annotations({
    description: "Whether the operation can be undone within one hour."
  }),
  status: OperationStatus,
  who: Schema.String,
  reason: Schema.NullOr(Schema.String),
  filter: Schema.NullOr(Schema.Unknown).annotations({ description: "Null if the jobs were given by id." }),
  createdAt: Moment,
  updatedAt: Moment,
  finishedAt: Schema.NullOr(Moment),
  total: Schema.NullOr(Total).annotations({ description: "Number of matching jobs at the start, if counted." }),
  done: Schema.Int,
  skipped: Schema.Record({ key: Schema.String, value: Schema.Int }).annotations({
    description: "Skipped jobs by reason: their state, not_found, dedupe_key_held or locked; for an undo, changed."
  }),
  failed: Schema.Int,
  error: Schema.NullOr(Schema.String)
}).annotations({ identifier: "Operation" })
export type OperationView = typeof OperationView.Type

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
            "Run an action on many jobs in the background. A filter without states matches the states that the action applies to; for requeue, only dead jobs. Jobs stored after the start are not included."
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/operations")
      .setUrlParams(Schema.Struct(pageQuery).annotations(WireText.strict))
      .addSuccess(Schema.Struct({ operations: Schema.Array(OperationView), next: Schema.NullOr(Schema.String) }))
      .addError(problem(400))
      .annotateContext(OpenApi.annotations({ description: "List operations, newest first." }))
  )
  .add(
    HttpApiEndpoint.get("get", "/operations/:id")
      .setPath(idPath)
      .addSuccess(OperationView)
      .addError(problem(404))
      .annotateContext(OpenApi.annotations({ description: "Show the progress and result of an operation." }))
  )
  .add(
    HttpApiEndpoint.post("cancel", "/operations/:id/cancel")
      .setPath(idPath)
      .addSuccess(OperationView)
      .addError(problem(404))
      .annotateContext(
        OpenApi.annotations({
          description: "Stop an operation before its next batch. Completed changes are not undone."
        })
      )
  )
  .add(
    HttpApiEndpoint.post("undo", "/operations/:id/undo")
      .setPath(idPath)
      .addSuccess(Begun, { status: 202 })
      .addError(problem(404))
      .addError(problem(409))
      .annotateContext(
        OpenApi.annotations({
          description:
            "Restore the jobs of an operation as they were before it: state, start time, attempts, error and reason; deleted jobs with all fields. Runs in the background as an operation itself. Jobs that have changed since are skipped."
        })
      )
  )
