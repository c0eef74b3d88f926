import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { DeadReason, Status } from "../../core/StoredJob.js"
import { ExecutionStatus } from "../../queue/workflow/Execution.js"
import { about, idPath, Moment, pageQuery, problem } from "../Contract.js"
import * as WireText from "../WireText.js"

const Wait = Schema.Struct({
  kind: Schema.Literal("signal", "sleep", "retry", "children", "changed"),
  name: Schema.String,
  createdAt: Moment,
  dueAt: Schema.NullOr(Moment).annotations({ description: "End of a sleep, or timeout of a signal." }),
  completedAt: Schema.NullOr(Moment),
  value: Schema.Unknown.annotations({ description: "The value of a signal." }),
  remaining: Schema.NullOr(Schema.Int).annotations({ description: "Children that have not ended." }),
  waiting: Schema.Boolean.annotations({ description: "Whether the execution is suspended until this wait ends." })
}).annotations({ identifier: "WorkflowWait" })

const Step = Schema.Struct({
  name: Schema.String,
  kind: Schema.Literal("run", "transaction", "sleep", "signal", "children", "patch", "undo"),
  attempt: Schema.Int,
  sequence: Schema.Int,
  outcome: Schema.Literal("done", "failed", "retrying"),
  exit: Schema.Unknown.annotations({ description: "The result or error of the step." }),
  startedAt: Moment,
  endedAt: Moment,
  retryAt: Schema.NullOr(Moment),
  reopenedAt: Schema.NullOr(Moment).annotations({
    description: "When a retry of the execution reopened this failed or undone step, so that it runs again."
  })
}).annotations({ identifier: "WorkflowStep" })

const Child = Schema.Struct({
  step: Schema.String.annotations({ description: "The step that started it." }),
  position: Schema.Int,
  id: JobId,
  owned: Schema.Boolean.annotations({ description: "Whether it is cancelled with this execution." }),
  kind: Schema.NullOr(Schema.String),
  execution: Schema.NullOr(Schema.String).annotations({ description: "Its execution id; null for a plain job." }),
  status: Schema.NullOr(Status).annotations({ description: "Null once its job was deleted." }),
  deadReason: Schema.NullOr(DeadReason),
  lastError: Schema.NullOr(Schema.String),
  createdAt: Schema.NullOr(Moment),
  finishedAt: Schema.NullOr(Moment)
}).annotations({ identifier: "WorkflowChild" })

const summary = {
  execution: Schema.String,
  id: JobId.annotations({ description: "The id of the execution's job." }),
  workflow: Schema.String,
  version: Schema.Int,
  queue: Schema.String,
  status: ExecutionStatus,
  deadReason: Schema.NullOr(DeadReason),
  payload: Schema.Unknown,
  result: Schema.Unknown,
  lastError: Schema.NullOr(Schema.String),
  createdAt: Moment,
  updatedAt: Moment,
  finishedAt: Schema.NullOr(Moment),
  dueAt: Schema.NullOr(Moment).annotations({ description: "When it continues if no signal arrives first." }),
  waits: Schema.Array(Wait).annotations({ description: "Waits that have not ended." })
}

export const ExecutionSummaryView = Schema.Struct(summary).annotations({ identifier: "WorkflowSummary" })
export type ExecutionSummaryView = typeof ExecutionSummaryView.Type

export const ExecutionView = Schema.Struct({
  ...summary,
  steps: Schema.Array(Step).annotations({ description: "The journal, in order." }),
  deferreds: Schema.Array(Wait).annotations({
    description: "All its waits, and signals that arrived before it waited for them."
  }),
  unclaimed: Schema.Array(Schema.String).annotations({
    description: "Names of signals that have arrived and that the execution has not received."
  }),
  children: Schema.Array(Child),
  parents: Schema.Array(Schema.String)
}).annotations({ identifier: "WorkflowExecution" })
export type ExecutionView = typeof ExecutionView.Type

const object = { message: () => "must be an object", ...WireText.strict }

const reason = WireText.optional(WireText.Text.annotations({ description: "Recorded in the audit log." }))

/** Body of `POST /api/v1/workflows`. */
export const StartRequest = Schema.Struct({
  workflow: WireText.Text.annotations({ description: "The workflow's name." }),
  key: WireText.Text.annotations({
    description: "At most one execution exists per workflow and key. A second start returns the existing one."
  }),
  payload: Schema.Unknown,
  queue: WireText.optional(WireText.Text),
  force: WireText.optional(
    Schema.Boolean.annotations({
      ...WireText.withMessage("must be true or false"),
      description: "Accept a workflow that no pod has registered and a payload that does not match its schema."
    })
  )
}).annotations({ identifier: "WorkflowStart", ...object })

/** Body of `POST /api/v1/workflows/{id}/signal`. */
export const SignalRequest = Schema.Struct({
  name: WireText.Text.annotations({ description: "The signal's name, as passed to `waitFor`." }),
  value: WireText.optional(Schema.Unknown)
}).annotations({ identifier: "WorkflowSignal", ...object })

/** Body of `POST /api/v1/workflows/{id}/cancel`. */
export const CancelRequest = Schema.Struct({
  now: WireText.optional(
    Schema.Boolean.annotations({
      ...WireText.withMessage("must be true or false"),
      description: "End the execution immediately, without undoing its steps."
    })
  ),
  reason
}).annotations({ identifier: "WorkflowCancel", ...object })

/** Body of `POST /api/v1/workflows/{id}/fork`. */
export const ForkRequest = Schema.Struct({
  step: WireText.Text.annotations({ description: "The first step that runs again." }),
  as: WireText.optional(WireText.Text.annotations({ description: "Id of the new execution; generated if omitted." })),
  reason
}).annotations({ identifier: "WorkflowFork", ...object })

const Started = Schema.Struct({
  execution: Schema.String,
  id: JobId,
  outcome: Schema.Literal("started", "exists")
}).annotations({ identifier: "WorkflowStarted" })

const Signalled = Schema.Struct({
  outcome: Schema.Literal("completed", "repeated").annotations({
    description: "`repeated`: the signal already had a value, which is unchanged."
  }),
  waitsFor: Schema.NullOr(Schema.Array(Schema.String)).annotations({
    description:
      "The signals that the execution waited for when this one arrived; null if the execution does not exist yet. A signal that is not among them is kept until the execution waits for it: check its name."
  })
})

const Cancelled = Schema.Struct({
  execution: Schema.String,
  cancelled: Schema.Int.annotations({
    description: "Number of cancelled executions and jobs, including this execution."
  })
})

export const group = HttpApiGroup.make("workflows")
  .add(
    HttpApiEndpoint.get("list", "/workflows")
      .setUrlParams(
        Schema.Struct({
          workflow: WireText.optional(WireText.Text),
          status: WireText.optional(
            ExecutionStatus.annotations(WireText.withMessage(`must be one of ${ExecutionStatus.literals.join(", ")}`))
          ),
          prefix: WireText.optional(WireText.Text.annotations({ description: "Prefix of the execution's id." })),
          ...pageQuery
        }).annotations(WireText.strict)
      )
      .addSuccess(Schema.Struct({ executions: Schema.Array(ExecutionSummaryView), next: Schema.NullOr(Schema.String) }))
      .addError(problem(400))
      .annotateContext(about("List workflow executions, newest first."))
  )
  .add(
    HttpApiEndpoint.post("start", "/workflows")
      .setPayload(StartRequest)
      .addSuccess(Started, { status: 201 })
      .addError(problem(400))
      .addError(problem(413))
      .addError(problem(415))
      .addError(problem(422))
      .annotateContext(about("Start an execution. Idempotent by workflow and key."))
  )
  .add(
    HttpApiEndpoint.get("get", "/workflows/:id")
      .setPath(idPath)
      .addSuccess(ExecutionView)
      .addError(problem(404))
      .annotateContext(
        about("Show an execution with its steps, waits and children. Takes the id of the execution or of its job.")
      )
  )
  .add(
    HttpApiEndpoint.post("signal", "/workflows/:id/signal")
      .setPath(idPath)
      .setPayload(SignalRequest)
      .addSuccess(Signalled)
      .addError(problem(400))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(
        about("Send a signal. A signal that arrives before its execution exists or waits for it is kept until then.")
      )
  )
  .add(
    HttpApiEndpoint.post("cancel", "/workflows/:id/cancel")
      .setPath(idPath)
      .setPayload(CancelRequest)
      .addSuccess(Cancelled)
      .addError(problem(400))
      .addError(problem(404))
      .addError(problem(409))
      .addError(problem(415))
      .annotateContext(about("Cancel an execution and its children. Their steps are undone, unless `now` is set."))
  )
  .add(
    HttpApiEndpoint.post("retry", "/workflows/:id/retry")
      .setPath(idPath)
      .addSuccess(ExecutionView)
      .addError(problem(404))
      .addError(problem(409))
      .annotateContext(
        about(
          "Run a failed or cancelled execution again from its failed step, or immediately try one whose code has changed."
        )
      )
  )
  .add(
    HttpApiEndpoint.post("fork", "/workflows/:id/fork")
      .setPath(idPath)
      .setPayload(ForkRequest)
      .addSuccess(Schema.Struct({ execution: Schema.String, id: JobId }), { status: 201 })
      .addError(problem(400))
      .addError(problem(404))
      .addError(problem(409))
      .addError(problem(415))
      .annotateContext(
        about("Start a new execution with the payload of this one and its journal entries before the given step.")
      )
  )
