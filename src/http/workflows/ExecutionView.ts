import { withoutTrace } from "../../core/ErrorText.js"
import { showable } from "../../core/Storable.js"
import type { Child, Deferred, Execution, ExecutionSummary, Step } from "../../queue/workflow/Execution.js"
import * as Instant from "../Instant.js"
import type { ExecutionSummaryView, ExecutionView } from "./WorkflowsContract.js"

const moment = (millis: number | undefined) => (millis === undefined ? null : Instant.format(millis))

const waitOf = (wait: Deferred) => ({
  kind: wait.kind,
  name: wait.name,
  createdAt: Instant.format(wait.createdAt),
  dueAt: moment(wait.dueAt),
  completedAt: moment(wait.completedAt),
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
  retryAt: moment(step.retryAt),
  reopenedAt: moment(step.reopenedAt)
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
  createdAt: moment(job?.createdAt),
  finishedAt: moment(job?.finishedAt)
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
  finishedAt: moment(execution.finishedAt),
  dueAt: moment(execution.dueAt),
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
