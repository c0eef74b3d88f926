import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import { isId, JobId } from "../../core/Ids.js"
import { showable } from "../../core/Storable.js"
import { reading } from "../../database/Replica.js"
import type { Kinds } from "../../queue/Kinds.js"
import type { Transactions } from "../../queue/Transactions.js"
import { maxExecutionPage } from "../../queue/workflow/Execution.js"
import { tagLimits } from "../../queue/workflow/Tags.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import { withReason } from "../access/Caller.js"
import * as Deadline from "../access/Deadline.js"
import * as Masked from "../access/Masked.js"
import * as Body from "../Body.js"
import { about, apiOf, idPath, pageLimits, pageQuery } from "../Contract.js"
import * as Problem from "../Problem.js"
import * as WireDuration from "../WireDuration.js"
import * as WireText from "../WireText.js"
import { ask, awaitedSignals, start } from "./ExecutionActs.js"
import * as ExecutionsFilter from "./ExecutionsFilter.js"
import * as ExecutionView from "./ExecutionView.js"

const reason = WireText.optional(WireText.Text.annotations({ description: "Recorded in the audit log." }))

const { nameCharacters, tags: maxTags, valueCharacters } = tagLimits
const tagRule = `at most ${maxTags}, names of up to ${nameCharacters} characters without "=", values of up to ${valueCharacters}`

/** Body of `POST /api/v1/workflows`. */
const StartRequest = Schema.Struct({
  workflow: WireText.Text.annotations({ description: "The workflow's name." }),
  key: WireText.Text.annotations({
    description: "At most one execution exists per workflow and key. A second start returns the existing one."
  }),
  payload: Schema.Unknown,
  queue: WireText.optional(WireText.Text),
  subject: WireText.optional(WireText.Subject),
  tags: WireText.optional(
    WireText.keyed(
      Schema.Record({ key: Schema.String, value: Schema.String }).annotations({
        ...WireText.withMessage('must be an object like {"customer":"42"}'),
        description: `Names and values by which the execution is found: ${tagRule}. Not set on an existing execution.`
      })
    )
  ),
  force: WireText.flag("Accept a workflow that no process has registered and a payload that does not match its schema.")
}).annotations(WireText.body("WorkflowStart"))

/** Body of `POST /api/v1/workflows/{id}/signal`. */
const SignalRequest = Schema.Struct({
  name: WireText.Text.annotations({ description: "The signal's name, as passed to `waitFor` or `next`." }),
  value: WireText.optional(Schema.Unknown),
  id: WireText.optional(
    WireText.Text.annotations({
      description: "Names this value among those of the signal: a second value with the same id is not stored."
    })
  )
}).annotations(WireText.body("WorkflowSignal"))

/** Longest time that a request waits for an answer. */
const maxAskMillis = 60_000

/** Body of `POST /api/v1/workflows/{id}/ask`. */
const AskRequest = Schema.Struct({
  name: WireText.Text.annotations({ description: "The ask's name, as passed to `step.answer`." }),
  value: WireText.optional(Schema.Unknown),
  id: WireText.optional(
    WireText.Text.annotations({
      description:
        "Names the ask: a second ask with the same id does not call the handler again, and gets the same answer."
    })
  ),
  timeout: WireText.optional(
    WireDuration.field("Maximum time to wait for the answer, up to 1m. [30s]", {
      if: (millis) => millis <= maxAskMillis,
      message: "must be a duration of at most 1m"
    })
  )
}).annotations(WireText.body("WorkflowAsk"))

/** Body of `POST /api/v1/workflows/{id}/cancel`. */
const CancelRequest = Schema.Struct({
  now: WireText.flag("End the execution immediately, without undoing its steps."),
  reason
}).annotations(WireText.body("WorkflowCancel"))

/** Body of `POST /api/v1/workflows/{id}/tags`. */
const TagsRequest = Schema.Struct({
  tags: WireText.keyed(
    Schema.Record({ key: Schema.String, value: Schema.NullOr(Schema.String) }).annotations({
      ...WireText.withMessage('must be an object like {"customer":"42"}'),
      description: `Tags to set: ${tagRule}. \`null\` removes a tag; others are kept.`
    })
  ),
  reason
}).annotations(WireText.body("WorkflowTags"))

/** Body of `POST /api/v1/workflows/{id}/fork`. */
const ForkRequest = Schema.Struct({
  step: WireText.Text.annotations({ description: "The first step that runs again." }),
  as: WireText.optional(WireText.Text.annotations({ description: "Id of the new execution; generated if omitted." })),
  reason
}).annotations(WireText.body("WorkflowFork"))

/** Body of `POST /api/v1/workflows/{id}/unpin`. */
const UnpinRequest = Schema.Struct({ reason }).annotations(WireText.body("WorkflowUnpin"))

const Started = Schema.Struct({
  execution: Schema.String,
  id: JobId,
  outcome: Schema.Literal("started", "existing")
}).annotations({ identifier: "WorkflowStarted" })

const Signalled = Schema.Struct({
  outcome: Schema.Literal("completed", "appended", "repeated").annotations({
    description:
      "`completed`: the first value of the signal. `appended`: a further one, which only `step.next` returns. `repeated`: a value with this id was sent before, so nothing was sent."
  }),
  waitsFor: Schema.NullOr(Schema.Array(Schema.String)).annotations({
    description:
      "The signals that the execution waited for when this one arrived; null if the execution does not exist yet. A signal that is not among them is kept until the execution waits for it: check its name."
  })
})

const Tagged = Schema.Struct({
  execution: Schema.String,
  tags: Schema.Record({ key: Schema.String, value: Schema.String }).annotations({
    description: "All tags of the execution after the change."
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
          ...ExecutionsFilter.query,
          ...ExecutionsFilter.sorting,
          ...pageQuery
        }).annotations(WireText.strict)
      )
      .addSuccess(
        Schema.Struct({
          executions: Schema.Array(ExecutionView.ExecutionSummaryView),
          next: Schema.NullOr(Schema.String),
          sortedAmong: Schema.NullOr(Schema.Int).annotations({
            description: "How many of the newest executions the order covers; null if it covers all that match."
          })
        })
      )
      .annotateContext(
        about(
          "List workflow executions, newest first or by `sort`. A cursor is valid only for the same sort and order."
        )
      )
  )
  .add(
    HttpApiEndpoint.get("counts", "/workflows/counts")
      .setUrlParams(Schema.Struct(ExecutionsFilter.query).annotations(WireText.strict))
      .addSuccess(ExecutionView.StateCountsView)
      .annotateContext(about("Count workflow executions by state."))
  )
  .add(
    HttpApiEndpoint.post("start", "/workflows")
      .setPayload(StartRequest)
      .addSuccess(Started, { status: 201 })
      .annotateContext(about("Start an execution. Idempotent by workflow and key.", 422))
  )
  .add(
    HttpApiEndpoint.get("get", "/workflows/:id")
      .setPath(idPath)
      .addSuccess(ExecutionView.ExecutionView)
      .annotateContext(
        about("Show an execution with its steps, waits and children. Takes the id of the execution or of its job.")
      )
  )
  .add(
    HttpApiEndpoint.post("signal", "/workflows/:id/signal")
      .setPath(idPath)
      .setPayload(SignalRequest)
      .addSuccess(Signalled)
      .annotateContext(
        about(
          "Send a signal. A signal that arrives before its execution exists or waits for it is kept until then.",
          409
        )
      )
  )
  .add(
    HttpApiEndpoint.post("ask", "/workflows/:id/ask")
      .setPath(idPath)
      .setPayload(AskRequest)
      .addSuccess(Schema.Struct({ answer: Schema.Unknown }))
      .annotateContext(
        about("Ask a running execution: calls the handler that its code attached with `step.answer`.", 409, 422, 504)
      )
  )
  .add(
    HttpApiEndpoint.post("cancel", "/workflows/:id/cancel")
      .setPath(idPath)
      .setPayload(CancelRequest)
      .addSuccess(Cancelled)
      .annotateContext(about("Cancel an execution and its children. Their steps are undone, unless `now` is set.", 409))
  )
  .add(
    HttpApiEndpoint.post("retry", "/workflows/:id/retry")
      .setPath(idPath)
      .addSuccess(ExecutionView.ExecutionView)
      .annotateContext(
        about(
          "Run a failed or cancelled execution again from its failed step, or immediately try one whose code has changed.",
          409
        )
      )
  )
  .add(
    HttpApiEndpoint.post("tag", "/workflows/:id/tags")
      .setPath(idPath)
      .setPayload(TagsRequest)
      .addSuccess(Tagged)
      .annotateContext(about("Set or remove tags of an execution, by which lists are filtered."))
  )
  .add(
    HttpApiEndpoint.post("fork", "/workflows/:id/fork")
      .setPath(idPath)
      .setPayload(ForkRequest)
      .addSuccess(Schema.Struct({ execution: Schema.String, id: JobId }), { status: 201 })
      .annotateContext(
        about("Start a new execution with the payload of this one and its journal entries before the given step.", 409)
      )
  )
  .add(
    HttpApiEndpoint.post("unpin", "/workflows/:id/unpin")
      .setPath(idPath)
      .setPayload(UnpinRequest)
      .addSuccess(ExecutionView.ExecutionView)
      .annotateContext(
        about("Let every release run an execution that is pinned to one. Without effect for other executions.")
      )
  )

const maxBodyBytes = 1024 * 1024 + 64 * 1024

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "workflows">,
  never,
  Workflows | Kinds | Transactions | Audit | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "workflows", (handlers) =>
  Effect.gen(function* () {
    const workflows = yield* Workflows
    const audited = yield* Audited.make
    const masked = yield* Masked.make
    const views = ExecutionView.maskedBy(masked)
    const context = yield* Effect.context<Workflows | Kinds | Transactions>()

    const shown = (id: string) => Effect.flatMap(workflows.show(id), views.execution)

    /** Returns the execution's id, given that id or the id of its job. */
    const executionOf = (id: string) =>
      isId(id) ? Effect.map(workflows.show(id), ({ execution }) => execution) : Effect.succeed(id)

    return handlers
      .handle("list", ({ urlParams }) =>
        Effect.gen(function* () {
          const { cursor, limit = pageLimits.default, order = "desc", sort = "started", ...filter } = urlParams
          yield* masked.checkFilterAllowed(filter.tag)
          const request = {
            limit: Math.min(limit, maxExecutionPage),
            before: cursor,
            sort: sort === "started" ? undefined : { by: sort, descending: order === "desc" }
          }
          const page = yield* reading(workflows.list(filter, request))
          const executions = yield* Effect.forEach(page.executions, views.listed)
          return { executions, next: page.next ?? null, sortedAmong: page.sortedAmong ?? null }
        })
      )
      .handle("counts", ({ urlParams: filter }) =>
        Effect.zipRight(masked.checkFilterAllowed(filter.tag), reading(workflows.countStates(filter)))
      )
      .handleRaw("start", ({ request }) =>
        Effect.gen(function* () {
          const given = yield* Body.decoded(request, StartRequest, maxBodyBytes)
          const started = yield* Deadline.rolledBackAfter(start(given))
          return HttpServerResponse.unsafeJson(started, { status: 201 })
        }).pipe(Effect.provide(context), Problem.catchErrorsOfOneJob)
      )
      .handle("get", ({ path }) => shown(path.id))
      .handleRaw("signal", ({ path, request }) =>
        Effect.gen(function* () {
          const { id, name, value } = yield* Body.decoded(request, SignalRequest, maxBodyBytes)
          const execution = yield* executionOf(path.id)
          // Without a slash it is no id of a workflow that could start later.
          if (!execution.includes("/")) yield* workflows.show(execution)
          const waitsFor = yield* Effect.provide(awaitedSignals(execution), context)
          const outcome = yield* workflows
            .signal({ execution, name, value: value ?? null, id })
            .pipe(audited("workflow.signal", execution, (outcome) => ({ after: { name, outcome } })))
          return { outcome, waitsFor }
        })
      )
      .handleRaw("ask", ({ path, request }) =>
        Effect.gen(function* () {
          const given = yield* Body.decoded(request, AskRequest, maxBodyBytes)
          const execution = yield* executionOf(path.id)
          const answer = yield* Effect.provide(ask({ ...given, execution }, audited), context)
          return { answer: yield* masked.json(showable(answer)) }
        })
      )
      .handleRaw("cancel", ({ path, request }) =>
        Effect.gen(function* () {
          const { now = false, reason } = yield* Body.decoded(request, CancelRequest, maxBodyBytes)
          const execution = yield* executionOf(path.id)
          const { cancelled } = yield* workflows.cancel(execution, { now }).pipe(
            audited("workflow.cancel", execution, ({ cancelled }) => ({ after: { now, cancelled } })),
            withReason(reason)
          )
          return { execution, cancelled }
        })
      )
      .handle("retry", ({ path }) =>
        Effect.gen(function* () {
          const execution = yield* executionOf(path.id)
          yield* workflows
            .retry(execution)
            .pipe(audited("workflow.retry", execution, ({ state }) => ({ after: { state } })))
          return yield* Audited.afterCommit(shown(execution))
        })
      )
      .handleRaw("tag", ({ path, request }) =>
        Effect.gen(function* () {
          const given = yield* Body.decoded(request, TagsRequest, maxBodyBytes)
          const execution = yield* executionOf(path.id)
          const tags = yield* workflows.tag(execution, given.tags).pipe(
            audited("workflow.tag", execution, (after) => ({ after })),
            withReason(given.reason)
          )
          return { execution, tags }
        })
      )
      .handleRaw("fork", ({ path, request }) =>
        Effect.gen(function* () {
          const { as, reason, step } = yield* Body.decoded(request, ForkRequest, maxBodyBytes)
          const execution = yield* executionOf(path.id)
          const forked = yield* workflows.fork(execution, step, { as }).pipe(
            audited("workflow.fork", execution, (after) => ({ after: { step, execution: after.execution } })),
            withReason(reason)
          )
          return HttpServerResponse.unsafeJson(forked, { status: 201 })
        })
      )
      .handleRaw("unpin", ({ path, request }) =>
        Effect.gen(function* () {
          const { reason } = yield* Body.decoded(request, UnpinRequest, maxBodyBytes)
          const { execution, pinned } = yield* workflows.show(path.id)
          yield* workflows.unpin({ execution }).pipe(
            audited("workflow.unpin", execution, () => ({ before: { release: pinned ?? null } })),
            withReason(reason)
          )
          return yield* Audited.afterCommit(shown(execution))
        })
      )
  })
)
