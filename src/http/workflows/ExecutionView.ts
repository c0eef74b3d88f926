import { Schema } from "effect"
import { withoutTrace } from "../../core/ErrorText.js"
import { JobId } from "../../core/Ids.js"
import { showable } from "../../core/Storable.js"
import { DeadReason, Status } from "../../core/StoredJob.js"
import {
  type Child,
  type Deferred,
  type Execution,
  ExecutionStatus,
  type ExecutionSummary,
  type Step
} from "../../queue/workflow/Execution.js"
import { Moment } from "../Contract.js"
import * as Instant from "../Instant.js"

const WaitView = Schema.Struct({
  kind: Schema.Literal("signal", "sleep", "retry", "children", "changed"),
  name: Schema.String,
  createdAt: Moment,
  dueAt: Schema.NullOr(Moment).annotations({ description: "End of a sleep, or timeout of a signal." }),
  completedAt: Schema.NullOr(Moment),
  value: Schema.Unknown.annotations({ description: "The value of a signal." }),
  remaining: Schema.NullOr(Schema.Int).annotations({ description: "Children that have not ended." }),
  waiting: Schema.Boolean.annotations({ description: "Whether the execution is suspended until this wait ends." })
}).annotations({ identifier: "WorkflowWait" })

const StepView = Schema.Struct({
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

const ChildView = Schema.Struct({
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
  waits: Schema.Array(WaitView).annotations({ description: "Waits that have not ended." })
}

export const ExecutionSummaryView = Schema.Struct(summary).annotations({ identifier: "WorkflowSummary" })
export type ExecutionSummaryView = typeof ExecutionSummaryView.Type

export const ExecutionView = Schema.Struct({
  ...summary,
  steps: Schema.Array(StepView).annotations({ description: "The journal, in order." }),
  deferreds: Schema.Array(WaitView).annotations({
    description: "All its waits, and signals that arrived before it waited for them."
  }),
  unclaimed: Schema.Array(Schema.String).annotations({
    description: "Names of signals that have arrived and that the execution has not received."
  }),
  children: Schema.Array(ChildView),
  parents: Schema.Array(Schema.String)
}).annotations({ identifier: "WorkflowExecution" })
export type ExecutionView = typeof ExecutionView.Type

const waitOf = (wait: Deferred) => ({
  kind: wait.kind,
  name: wait.name,
  createdAt: Instant.format(wait.createdAt),
  dueAt: Instant.formatOrNull(wait.dueAt),
  completedAt: Instant.formatOrNull(wait.completedAt),
  value: showable(wait.exit ?? null),
  remaining: wait.remaining ?? null,
  waiting: wait.waiting
})

const stepOf = (step: Step) => ({
  name: step.name,
  kind: step.kind,
  attempt: step.attempt,
  sequence: step.sequence,
  outcome: step.outcome,
  exit: showable(step.exit ?? null),
  startedAt: Instant.format(step.startedAt),
  endedAt: Instant.format(step.endedAt),
  retryAt: Instant.formatOrNull(step.retryAt),
  reopenedAt: Instant.formatOrNull(step.reopenedAt)
})

const childOf = ({ id, job, name, owned, position }: Child) => ({
  step: name,
  position,
  id,
  owned,
  kind: job?.kind ?? null,
  execution: job?.execution ?? null,
  status: job?.status ?? null,
  deadReason: job?.deadReason ?? null,
  lastError: job?.lastError === undefined ? null : withoutTrace(job.lastError),
  createdAt: Instant.formatOrNull(job?.createdAt),
  finishedAt: Instant.formatOrNull(job?.finishedAt)
})

export const ofSummary = (execution: ExecutionSummary): ExecutionSummaryView => ({
  execution: execution.execution,
  id: execution.id,
  workflow: execution.workflow,
  version: execution.version,
  queue: execution.queue,
  status: execution.status,
  deadReason: execution.deadReason ?? null,
  payload: showable(execution.payload),
  result: showable(execution.result ?? null),
  lastError: execution.lastError === undefined ? null : withoutTrace(execution.lastError),
  createdAt: Instant.format(execution.createdAt),
  updatedAt: Instant.format(execution.updatedAt),
  finishedAt: Instant.formatOrNull(execution.finishedAt),
  dueAt: Instant.formatOrNull(execution.dueAt),
  waits: execution.waits.map(waitOf)
})

export const of = (execution: Execution): ExecutionView => ({
  ...ofSummary(execution),
  lastError: execution.lastError ?? null,
  steps: execution.steps.map(stepOf),
  deferreds: execution.deferreds.map(waitOf),
  unclaimed: execution.unclaimed,
  children: execution.children.map(childOf),
  parents: execution.parents
})
