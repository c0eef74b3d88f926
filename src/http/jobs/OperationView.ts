import { Schema } from "effect"
import { type Operation, OperationAction, OperationStatus } from "../../queue/admin/Operations.js"
import type { Mask } from "../access/Masked.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"
import * as JobsFilter from "./JobsFilter.js"

/** A count; a lower bound if it is not exact. */
export const Total = Schema.Struct({ count: Schema.Int, exact: Schema.Boolean })

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
  createdAt: Instant.Moment,
  updatedAt: Instant.Moment,
  finishedAt: Schema.NullOr(Instant.Moment),
  total: Schema.NullOr(Total).annotations({ description: "Number of matching jobs at the start, if counted." }),
  done: Schema.Int,
  skipped: Schema.Record({ key: Schema.String, value: Schema.Int }).annotations({
    description: "Skipped jobs by reason: their state, not_found, dedupe_key_held or locked; for an undo, changed."
  }),
  failed: Schema.Int,
  rehearsal: Schema.NullOr(
    Schema.Struct({
      jobs: Schema.Int,
      ids: Schema.Array(Schema.String),
      succeeded: Schema.Int,
      verdict: Schema.Literal("open", "passed", "failed")
    }).annotations({ identifier: "Rehearsal" })
  ).annotations({ description: "The jobs that are requeued first; the others follow if all of them succeed." }),
  error: Schema.NullOr(Schema.String)
}).annotations({ identifier: "Operation" })
export type OperationView = typeof OperationView.Type

const fieldsOf = ResponseFields.of(OperationView)

export const of = (operation: Operation): OperationView => ({
  ...fieldsOf(operation),
  filter: operation.filter === undefined ? null : JobsFilter.view(operation.filter)
})

/** The operation as viewers may see it. Its error may quote that of a rehearsed job. */
export const hidden = (view: OperationView, { json, text }: Mask): OperationView => ({
  ...view,
  filter: json(view.filter),
  error: text(view.error, view.filter)
})
