import { Effect, Predicate } from "effect"
import { shown } from "../../core/Storable.js"
import type { NewJob } from "../../queue/NewJob.js"
import { jobOf } from "../../queue/workflow/ExecutionJob.js"
import { type NewExecution, Workflows } from "../../queue/workflow/Workflows.js"
import type { Enqueued, EnqueueOptions } from "../Enqueue.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import { statementsOf, type Transaction } from "../TransactionAdapter.js"
import * as ExecutionHandle from "./ExecutionHandle.js"

/** What starting an execution uses of a shift. */
export interface StartHost extends ExecutionHandle.Host {
  /** Makes the job of an execution, after validating its payload. */
  readonly newJob: <In>(
    job: ExecutionHandle.WorkflowDefinition<In, unknown, unknown, unknown>["job"],
    payload: In,
    options: Omit<EnqueueOptions, "tx" | "dedupe">
  ) => Promise<NewJob>
  /** Stores a job without tags, together with others of this tick. */
  readonly store: (job: NewJob) => Promise<Enqueued>
}

/** What to call for a job instead. */
const ofJob = { start: "store it with shift.enqueue", execution: "read it with shift.job" }

/** Throws InvalidOptionError for what is not a workflow. */
export const checkWorkflow = (method: keyof typeof ofJob, workflow: unknown): void => {
  if (Predicate.hasProperty(workflow, "definition") && Predicate.hasProperty(workflow, "name")) return
  if (Predicate.hasProperty(workflow, "encode") && Predicate.hasProperty(workflow, "name"))
    throw new InvalidOptionError("workflow", `"${workflow.name}" is a job, not a workflow: ${ofJob[method]}.`)
  throw new InvalidOptionError(
    "workflow",
    `The first argument of ${method} must be a workflow that workflow(…) returned, got ${shown(workflow)}.`
  )
}

const stored = (
  { engine, store }: StartHost,
  execution: NewExecution,
  tx: Transaction | undefined
): Promise<Pick<Enqueued, "id" | "outcome">> => {
  if (tx !== undefined) {
    const run = statementsOf(tx)
    return engine.run(Effect.flatMap(Workflows, (workflows) => workflows.startInside(run, execution)))
  }
  if (execution.tags === undefined) return store(jobOf(execution))
  return engine.run(Effect.flatMap(Workflows, (workflows) => workflows.start(execution)))
}

/** Starts an execution, or finds the existing one with its key. */
export const start = async <In, Result, Signals, Asks>(
  host: StartHost,
  workflow: ExecutionHandle.Startable<In, Result, Signals, Asks>,
  payload: In,
  { key: given, tags, tx, ...options }: ExecutionHandle.StartOptions
): Promise<ExecutionHandle.StartedExecution<Result, Signals, Asks>> => {
  checkWorkflow("start", workflow)
  const { definition, name } = workflow
  // The key may be derived from parts that an invalid payload does not have.
  if (given === undefined && definition.key !== undefined) await definition.job.encode(payload)
  const key = given ?? ExecutionHandle.keyOf(name, definition.key, payload) ?? host.engine.newId()
  const execution = ExecutionHandle.idOf(name, key)
  const job = await host.newJob(definition.job, payload, options)
  const { id, outcome } = await stored(host, { ...job, execution, tags }, tx)
  const isNew = outcome === "enqueued"
  return ExecutionHandle.ofStarted(host, workflow, { id, execution, outcome: isNew ? "started" : "existing" })
}
