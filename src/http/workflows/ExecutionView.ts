import { Predicate, Record, Schema } from "effect"
import { withoutTrace } from "../../core/ErrorText.js"
import { JobId } from "../../core/Ids.js"
import { showable } from "../../core/Storable.js"
import { DeadReason, State } from "../../core/StoredJob.js"
import {
  type Child,
  type Deferred,
  type DescribedChild,
  type DescribedWait,
  type Execution,
  ExecutionState,
  type ExecutionSummary,
  maxCountedParts
} from "../../queue/workflow/Execution.js"
import { maxStateCounts } from "../../queue/workflow/ExecutionPage.js"
import type { Mask, Masked } from "../access/Masked.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"

export const WaitView = Schema.Struct({
  kind: Schema.Literal(
    "signal",
    "value",
    "message",
    "sleep",
    "retry",
    "children",
    "limit",
    "changed",
    "ask",
    "answer"
  ).annotations({
    description:
      "`value`: a further value of a signal. `message`: `step.next`. `ask`: an ask that has arrived. `answer`: asks that the code answers."
  }),
  name: Schema.String,
  createdAt: Instant.Moment,
  dueAt: Schema.NullOr(Instant.Moment).annotations({ description: "End of a sleep, or timeout of a signal." }),
  completedAt: Schema.NullOr(Instant.Moment),
  value: Schema.Unknown.annotations({ description: "The value of a signal, or the limit that a step waits for." }),
  remaining: Schema.NullOr(Schema.Int).annotations({ description: "Children that have not ended." }),
  waiting: Schema.Boolean.annotations({ description: "Whether the execution is suspended until this wait ends." })
}).annotations({ identifier: "WorkflowWait" })

export const StepView = Schema.Struct({
  name: Schema.String,
  kind: Schema.Literal(
    "run",
    "transaction",
    "stream",
    "sleep",
    "signal",
    "message",
    "ask",
    "children",
    "patch",
    "value",
    "set",
    "undo"
  ),
  attempt: Schema.Int,
  sequence: Schema.Int,
  outcome: Schema.Literal("done", "failed", "retrying"),
  exit: Schema.Unknown.annotations({ description: "The result or error of the step." }),
  startedAt: Instant.Moment,
  endedAt: Instant.Moment,
  retryAt: Schema.NullOr(Instant.Moment),
  reopenedAt: Schema.NullOr(Instant.Moment).annotations({
    description: "When a retry of the execution reopened this failed or undone step, so that it runs again."
  })
}).annotations({ identifier: "WorkflowStep" })

export const StreamView = Schema.Struct({
  name: Schema.String.annotations({ description: "The name of the step that writes the stream." }),
  generation: Schema.Int.annotations({ description: "Each attempt of the step writes the stream again." }),
  state: Schema.Literal("open", "done", "failed", "interrupted").annotations({
    description: "`interrupted`: the execution ended before the step."
  }),
  count: Schema.Int.annotations({ description: "Number of chunks in this generation." }),
  bytes: Schema.Int.annotations({ description: "Size of these chunks as JSON." }),
  startedAt: Instant.Moment.annotations({ description: "Start of this generation." }),
  endedAt: Schema.NullOr(Instant.Moment)
}).annotations({ identifier: "WorkflowStream" })

export const ChildView = Schema.Struct({
  step: Schema.String.annotations({ description: "The step that started the child." }),
  position: Schema.Int,
  id: JobId,
  owned: Schema.Boolean.annotations({ description: "Whether the child is cancelled with this execution." }),
  kind: Schema.NullOr(Schema.String),
  execution: Schema.NullOr(Schema.String).annotations({
    description: "The child's execution id; null for a plain job."
  }),
  state: Schema.NullOr(Schema.Union(State, ExecutionState)).annotations({
    description: "The state of the child's job or execution; null once the job was deleted."
  }),
  reason: Schema.NullOr(DeadReason),
  lastError: Schema.NullOr(Schema.String),
  createdAt: Schema.NullOr(Instant.Moment),
  finishedAt: Schema.NullOr(Instant.Moment)
}).annotations({ identifier: "WorkflowChild" })

export const HeartbeatView = Schema.Struct({
  step: Schema.String,
  attempt: Schema.Int,
  startedAt: Instant.Moment.annotations({ description: "When the attempt began." }),
  at: Instant.Moment.annotations({ description: "When the heartbeat was stored." }),
  timeoutAt: Schema.NullOr(Instant.Moment).annotations({ description: "When the attempt times out." }),
  details: Schema.Unknown.annotations({ description: "What the step sent, for its next attempt." })
}).annotations({ identifier: "WorkflowHeartbeat" })

const summary = {
  execution: Schema.String,
  id: JobId.annotations({ description: "The id of the execution's job." }),
  workflow: Schema.String,
  version: Schema.Int,
  queue: Schema.String,
  state: ExecutionState,
  reason: Schema.NullOr(DeadReason),
  payload: Schema.Unknown,
  result: Schema.Unknown,
  lastError: Schema.NullOr(Schema.String),
  createdAt: Instant.Moment,
  updatedAt: Instant.Moment,
  finishedAt: Schema.NullOr(Instant.Moment),
  dueAt: Schema.NullOr(Instant.Moment).annotations({
    description: "When the execution continues if no signal arrives first."
  }),
  continued: Schema.Int.annotations({
    description: "How often the execution continued with a new payload and an empty journal."
  }),
  pinned: Schema.NullOr(Schema.String).annotations({
    description: "The release of the code that the execution is pinned to; null if any may run it."
  }),
  tags: Schema.Record({ key: Schema.String, value: Schema.String }).annotations({
    description: "Names and values by which the execution is found."
  }),
  waits: Schema.Array(WaitView).annotations({ description: "Waits that have not ended." }),
  stepsDone: Schema.Int.annotations({
    description: `Number of steps in its journal that are done; counted up to ${maxCountedParts}.`
  }),
  failedStep: Schema.NullOr(Schema.String).annotations({
    description: "The last step that failed, if the execution failed."
  }),
  childCounts: Schema.Struct({
    done: Schema.Int,
    failed: Schema.Int,
    cancelled: Schema.Int,
    open: Schema.Int.annotations({ description: "Children that have not ended." }),
    deleted: Schema.Int.annotations({ description: "Children whose job was deleted." }),
    more: Schema.Boolean.annotations({ description: `Whether there are more than ${maxCountedParts} children.` })
  }).annotations({
    identifier: "WorkflowChildCounts",
    description: `The first ${maxCountedParts} children, by what happened to them.`
  })
}

export const ExecutionSummaryView = Schema.Struct(summary).annotations({ identifier: "WorkflowSummary" })
export type ExecutionSummaryView = typeof ExecutionSummaryView.Type

export const ExecutionView = Schema.Struct({
  ...summary,
  steps: Schema.Array(StepView).annotations({ description: "The journal, in order." }),
  streams: Schema.Array(StreamView).annotations({ description: "Streams that its steps write, oldest first." }),
  deferreds: Schema.Array(WaitView).annotations({
    description: "All waits of the execution, and signals that arrived before it waited for them."
  }),
  unclaimed: Schema.Array(Schema.String).annotations({
    description: "Names of signals that have arrived and that the execution has not received."
  }),
  heartbeats: Schema.Array(HeartbeatView).annotations({
    description: "The last heartbeats of steps that have not ended."
  }),
  values: Schema.Record({ key: Schema.String, value: Schema.Unknown }).annotations({
    description: "The last value of each name that the code has set with `step.set`."
  }),
  children: Schema.Array(ChildView),
  parents: Schema.Array(Schema.String)
}).annotations({ identifier: "WorkflowExecution" })
export type ExecutionView = typeof ExecutionView.Type

export const StateCountsView = Schema.Struct({
  counts: Schema.Record({ key: ExecutionState, value: Schema.Int }).annotations({
    description: "Number of executions in each state."
  }),
  exact: Schema.Boolean.annotations({
    description: `False if there are more than ${maxStateCounts} executions: then only the newest are counted.`
  })
}).annotations({ identifier: "WorkflowCounts" })

/** The value of a signal is stored like the result of a step, but callers get it as a value. */
const describedWait = ({ exit, kind, ...wait }: Deferred): DescribedWait => ({
  ...wait,
  kind: kind as DescribedWait["kind"],
  value: exit
})

const describedChild = ({ job, name, ...child }: Child): DescribedChild => ({
  ...child,
  step: name,
  ...job,
  lastError: job?.lastError === undefined ? undefined : withoutTrace(job.lastError)
})

/** An execution without its journal, with the names that callers see. */
export const describedSummary = (execution: ExecutionSummary) => ({
  ...execution,
  waits: execution.waits.map(describedWait)
})

/** An execution with the names that callers see. */
export const described = (execution: Execution) => ({
  ...execution,
  waits: execution.waits.map(describedWait),
  deferreds: execution.deferreds.map(describedWait),
  children: execution.children.map(describedChild)
})

const summaryOf = ResponseFields.of(ExecutionSummaryView)
const executionOf = ResponseFields.of(ExecutionView)
const waitOf = ResponseFields.of(WaitView)
const stepOf = ResponseFields.of(StepView)
const streamOf = ResponseFields.of(StreamView)
const childOf = ResponseFields.of(ChildView)
const heartbeatOf = ResponseFields.of(HeartbeatView)

const waitView = (wait: DescribedWait) => ({ ...waitOf(wait), value: showable(wait.value ?? null) })

/** What a list and a single execution have in common. */
const commonOf = (execution: ExecutionSummary) => ({
  payload: showable(execution.payload),
  result: showable(execution.result ?? null),
  tags: execution.tags,
  waits: execution.waits.map((wait) => waitView(describedWait(wait)))
})

export const ofSummary = (execution: ExecutionSummary): ExecutionSummaryView => ({
  ...summaryOf(execution),
  ...commonOf(execution),
  lastError: execution.lastError === undefined ? null : withoutTrace(execution.lastError)
})

export const of = (execution: Execution): ExecutionView => {
  const { children, deferreds } = described(execution)
  return {
    ...executionOf(execution),
    ...commonOf(execution),
    values: showable(execution.values) as ExecutionView["values"],
    steps: execution.steps.map((step) => ({ ...stepOf(step), exit: showable(step.exit ?? null) })),
    streams: execution.streams.map((stream) => streamOf(stream)),
    deferreds: deferreds.map(waitView),
    heartbeats: execution.heartbeats.map((beat) => ({ ...heartbeatOf(beat), details: showable(beat.details ?? null) })),
    children: children.map((child) => childOf(child))
  }
}

const hiddenWait =
  ({ json }: Mask) =>
  (wait: ExecutionView["waits"][number]) => ({ ...wait, value: json(wait.value) })

/** Masks what programs store, not the fields of executions: one of them may have the name of a masked field. */
const hiddenSummary = <A extends ExecutionSummaryView>(view: A, mask: Mask): A => ({
  ...view,
  payload: mask.json(view.payload),
  result: mask.json(view.result),
  tags: mask.json(view.tags) as A["tags"],
  waits: view.waits.map(hiddenWait(mask)),
  lastError: mask.text(view.lastError, view.payload)
})

/** Masks an error whose texts may be in the fields of objects, such as those of the children that failed. */
const hiddenError = (error: unknown, payload: unknown, mask: Mask): unknown => {
  if (typeof error === "string") return mask.text(error, payload)
  if (Array.isArray(error)) return error.map((each) => hiddenError(each, payload, mask))
  return Predicate.isRecord(error) ? Record.map(error, (each) => hiddenError(each, payload, mask)) : error
}

/** A step that failed has an `error`, and may have the `issues` of a value that was refused. Both may quote the payload. */
const hiddenExit = (exit: unknown, payload: unknown, mask: Mask): unknown => {
  const hidden = mask.json(exit)
  return Predicate.hasProperty(hidden, "error") ? hiddenError(hidden, payload, mask) : hidden
}

const hidden = (view: ExecutionView, mask: Mask): ExecutionView => ({
  ...hiddenSummary(view, mask),
  values: mask.json(view.values) as ExecutionView["values"],
  steps: view.steps.map((step) => ({ ...step, exit: hiddenExit(step.exit, view.payload, mask) })),
  deferreds: view.deferreds.map(hiddenWait(mask)),
  heartbeats: view.heartbeats.map((beat) => ({ ...beat, details: mask.json(beat.details) })),
  children: view.children.map((child) => ({ ...child, lastError: mask.text(child.lastError, view.payload) }))
})

/** The execution as its caller may see it: whole, and in a list. */
export const maskedBy = ({ view }: Masked) => ({
  execution: (execution: Execution) => view(of(execution), hidden),
  listed: (execution: ExecutionSummary) => view(ofSummary(execution), hiddenSummary)
})
