import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer } from "effect"
import type { Audit } from "../../access/Audit.js"
import { isId } from "../../core/Ids.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { Kinds } from "../../queue/Kinds.js"
import type { Transactions } from "../../queue/Transactions.js"
import { NotAWorkflow } from "../../queue/workflow/WorkflowErrors.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import { Api } from "../Api.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import { withReason } from "../access/Caller.js"
import * as Body from "../Body.js"
import { pageLimits } from "../Contract.js"
import * as Problem from "../Problem.js"
import * as Views from "../Views.js"
import * as ExecutionView from "./ExecutionView.js"
import {
  CancelRequest,
  type ExecutionSummaryView,
  ForkRequest,
  SignalRequest,
  StartRequest
} from "./WorkflowsContract.js"

const mostBodyBytes = 1024 * 1024 + 64 * 1024

/** Maximum page size. Small, because an execution may have a large payload. */
const mostListed = 200

type Start = Omit<typeof StartRequest.Type, "queue"> & { readonly queue?: string | undefined }

/** Starts an execution of a registered workflow. Shared with the command line. */
export const start = ({ force = false, key, payload, queue, workflow }: Start) =>
  Effect.gen(function* () {
    const workflows = yield* Workflows
    const [job] = yield* JobRequests.resolve([{ kind: workflow, payload, queue }], { force, check: true })
    if (job === undefined) return yield* Effect.dieMessage("the workflow was not resolved")
    if (!force) {
      const { find } = yield* Kinds
      const isWorkflow = yield* Effect.map(find(workflow), (kind) => kind.workflow === true)
      if (!isWorkflow) return yield* new NotAWorkflow({ kind: workflow })
    }
    const execution = `${workflow}/${key}`
    const { _tag, id } = yield* workflows.start({ ...job, execution })
    return { execution, id, outcome: _tag === "Enqueued" ? ("started" as const) : ("exists" as const) }
  })

/** Names of the signals that the execution waits for; null if it does not exist. Shared with the command line. */
export const awaitedSignals = (execution: string) =>
  Effect.flatMap(Workflows, (workflows) => workflows.show(execution)).pipe(
    Effect.map(({ waits }) => waits.filter(({ kind }) => kind === "signal").map(({ name }) => name)),
    Effect.catchTag("ExecutionNotFound", () => Effect.succeed(null))
  )

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "workflows">,
  never,
  Workflows | Kinds | Transactions | Audit | AccessConfig
> = HttpApiBuilder.group(Api, "workflows", (handlers) =>
  Effect.gen(function* () {
    const workflows = yield* Workflows
    const audited = yield* Audited.make
    const views = yield* Views.make
    const context = yield* Effect.context<Workflows | Kinds>()

    /** Masks what a viewer must not see: payloads, results, signals and step results. */
    const masked = <A extends ExecutionSummaryView>(view: A) => Effect.map(views.json(view), (json) => json as A)

    const shown = (id: string) => workflows.show(id).pipe(Effect.map(ExecutionView.of), Effect.flatMap(masked))

    /** Returns the execution's id, given that id or the id of its job. */
    const executionOf = (id: string) =>
      isId(id) ? Effect.map(workflows.show(id), ({ execution }) => execution) : Effect.succeed(id)

    return handlers
      .handle("list", ({ urlParams: { cursor, limit = pageLimits.default, ...filter } }) =>
        Effect.gen(function* () {
          const page = yield* workflows.list(filter, { limit: Math.min(limit, mostListed), before: cursor })
          const executions = yield* Effect.forEach(page.executions, (each) => masked(ExecutionView.ofSummary(each)))
          return { executions, next: page.next ?? null }
        }).pipe(Problem.catchErrors)
      )
      .handleRaw("start", ({ request }) =>
        Effect.gen(function* () {
          const started = yield* start(yield* Body.decoded(request, StartRequest, mostBodyBytes))
          return HttpServerResponse.unsafeJson(started, { status: 201 })
        }).pipe(Effect.provide(context), Problem.catchErrorsOfOneJob)
      )
      .handle("get", ({ path }) => Problem.catchErrors(shown(path.id)))
      .handleRaw("signal", ({ path, request }) =>
        Effect.gen(function* () {
          const { name, value } = yield* Body.decoded(request, SignalRequest, mostBodyBytes)
          const execution = yield* executionOf(path.id)
          // Without a slash it is no id of a workflow that could start later.
          if (!execution.includes("/")) yield* workflows.show(execution)
          const waitsFor = yield* Effect.provide(awaitedSignals(execution), context)
          const outcome = yield* workflows
            .signal({ execution, name, value: value ?? null })
            .pipe(audited("workflow.signal", execution, (outcome) => ({ after: { name, outcome } })))
          return { outcome, waitsFor }
        }).pipe(Problem.catchErrors)
      )
      .handleRaw("cancel", ({ path, request }) =>
        Effect.gen(function* () {
          const { now = false, reason } = yield* Body.decoded(request, CancelRequest, mostBodyBytes)
          const execution = yield* executionOf(path.id)
          const { cancelled } = yield* workflows.cancel(execution, { now }).pipe(
            audited("workflow.cancel", execution, ({ cancelled }) => ({ after: { now, cancelled } })),
            withReason(reason)
          )
          return { execution, cancelled }
        }).pipe(Problem.catchErrors)
      )
      .handle("retry", ({ path }) =>
        Effect.gen(function* () {
          const execution = yield* executionOf(path.id)
          yield* workflows
            .retry(execution)
            .pipe(audited("workflow.retry", execution, ({ state }) => ({ after: { state } })))
          return yield* shown(execution)
        }).pipe(Problem.catchErrors)
      )
      .handleRaw("fork", ({ path, request }) =>
        Effect.gen(function* () {
          const { as, reason, step } = yield* Body.decoded(request, ForkRequest, mostBodyBytes)
          const execution = yield* executionOf(path.id)
          const forked = yield* workflows.fork(execution, step, { as }).pipe(
            audited("workflow.fork", execution, (after) => ({ after: { step, execution: after.execution } })),
            withReason(reason)
          )
          return HttpServerResponse.unsafeJson(forked, { status: 201 })
        }).pipe(Problem.catchErrors)
      )
  })
)
