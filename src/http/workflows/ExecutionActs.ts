import { Clock, Effect } from "effect"
import { makeGenerator } from "../../core/Ids.js"
import * as StepName from "../../core/StepName.js"
import { DatabaseUnavailable } from "../../database/DatabaseError.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { Kinds } from "../../queue/Kinds.js"
import * as AskAnswer from "../../queue/workflow/AskAnswer.js"
import type { Tags } from "../../queue/workflow/Execution.js"
import { NotAWorkflow } from "../../queue/workflow/WorkflowErrors.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import type * as Audited from "../access/Audited.js"
import { AskInterrupted } from "../RequestErrors.js"

// What the routes and the command line do with executions.

interface Start {
  readonly workflow: string
  readonly key: string
  readonly payload: unknown
  readonly queue?: string | undefined
  readonly subject?: string | undefined
  readonly tags?: Tags | undefined
  /** Accepts a workflow that no process has registered and a payload that does not match its schema. [false] */
  readonly force?: boolean | undefined
}

/** Starts an execution of a registered workflow. */
export const start = ({ force = false, key, payload, queue, subject, tags, workflow }: Start) =>
  Effect.gen(function* () {
    const workflows = yield* Workflows
    const [job] = yield* JobRequests.resolve([{ kind: workflow, payload, queue, subject }], { force, check: true })
    if (job === undefined) return yield* Effect.dieMessage("the workflow was not resolved")
    if (!force) {
      const { find } = yield* Kinds
      const isWorkflow = yield* Effect.map(find(workflow), (kind) => kind.workflow === true)
      if (!isWorkflow) return yield* new NotAWorkflow({ kind: workflow })
    }
    const execution = `${workflow}/${key}`
    const { id, outcome } = yield* workflows.start({ ...job, execution, tags })
    return { execution, id, outcome: outcome === "enqueued" ? ("started" as const) : ("existing" as const) }
  })

interface AskGiven {
  readonly execution: string
  readonly name: string
  readonly value?: unknown
  readonly id?: string | undefined
  /** In milliseconds. */
  readonly timeout?: number | undefined
}

/** Asks an execution, and waits for the answer after the transaction that stores the ask. */
export const ask = ({ execution, id, name, timeout, value = null }: AskGiven, audited: Audited.Audited) =>
  Effect.gen(function* () {
    const workflows = yield* Workflows
    const ids = yield* makeGenerator
    const sent = { execution, name, value, id: id ?? ids.job(yield* Clock.currentTimeMillis) }
    const interrupted = ({ message: detail }: DatabaseUnavailable) =>
      new AskInterrupted({ execution, name, id: sent.id, detail })
    yield* workflows.ask(sent).pipe(
      audited("workflow.ask", execution, () => ({ after: { name, id: sent.id } })),
      // Without the id, the caller would ask again with another one, and the handler would be called twice.
      Effect.mapError((error) =>
        error instanceof DatabaseUnavailable && !error.nothingWritten ? interrupted(error) : error
      )
    )
    const answer = AskAnswer.answerWithin(workflows, sent, timeout ?? AskAnswer.defaultTimeout)
    const awaited = Effect.mapError(answer, (error) =>
      error instanceof DatabaseUnavailable ? interrupted(error) : error
    )
    return (yield* awaited) ?? null
  })

/** Names of the signals that the execution waits for; null if it does not exist. */
export const awaitedSignals = (execution: string) =>
  Effect.flatMap(Workflows, (workflows) => workflows.show(execution)).pipe(
    Effect.map(({ waits }) =>
      waits
        .filter(({ kind }) => kind === "signal" || kind === "message")
        .map(({ kind, name }) => (kind === "message" ? StepName.signalOf(name) : name))
    ),
    Effect.catchTag("ExecutionNotFound", () => Effect.succeed(null))
  )
