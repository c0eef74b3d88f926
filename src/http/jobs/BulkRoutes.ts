import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import { JobId } from "../../core/Ids.js"
import { countLimits, isFor, previewOf, resolve, sampleSize } from "../../queue/admin/OperationScope.js"
import {
  Action,
  isUndoable,
  maxOperationIds,
  type Operation,
  Operations,
  type Target
} from "../../queue/admin/Operations.js"
import { rehearsalLimits } from "../../queue/admin/Rehearsal.js"
import { JobOverview } from "../../queue/search/JobOverview.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import { Caller, withReason } from "../access/Caller.js"
import * as Masked from "../access/Masked.js"
import * as Body from "../Body.js"
import { about, apiOf, idPath, pageLimits, pageQuery } from "../Contract.js"
import { BadRequest } from "../RequestErrors.js"
import * as WireText from "../WireText.js"
import * as JobsFilter from "./JobsFilter.js"
import * as JobView from "./JobView.js"
import { ListCache } from "./ListCache.js"
import * as OperationView from "./OperationView.js"

/** Body of `POST /api/v1/jobs/bulk`. */
const BulkRequest = Schema.Struct({
  action: WireText.oneOf(Action.literals),
  ids: WireText.optional(
    Schema.Array(JobId.annotations(WireText.withMessage("must be a job id"))).annotations({
      message: () => "must be a list of ids",
      description: `1 to ${maxOperationIds} job ids. Use either ids or filter.`
    })
  ),
  filter: WireText.optional(JobsFilter.Body),
  dryRun: WireText.flag("Change nothing; return the number of matching jobs and the first of them."),
  countTo: WireText.optional(
    Schema.Int.pipe(Schema.between(1, countLimits.max)).annotations({
      ...WireText.withMessage(`must be a whole number from 1 to ${countLimits.max}`),
      description: `How far a dry run counts, ${countLimits.default} by default. Up to ${countLimits.quick}, it answers within a second.`
    })
  ),
  rehearse: WireText.optional(
    Schema.Int.pipe(Schema.between(rehearsalLimits.min, rehearsalLimits.max)).annotations({
      ...WireText.withMessage(`must be a whole number from ${rehearsalLimits.min} to ${rehearsalLimits.max}`),
      description:
        "For requeue: how many jobs to requeue first. The others follow when all of them have succeeded. If one fails, or none ends for 15 minutes, the operation fails and leaves the others as they are."
    })
  ),
  reason: WireText.optional(WireText.Text)
}).annotations(WireText.body("BulkRequest", "must be an object with action, and ids or filter"))
type BulkRequest = typeof BulkRequest.Type

const Preview = Schema.Struct({
  matched: OperationView.Total,
  filter: Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.Unknown })).annotations({
    description:
      "The filter of the request with its states, and bounds that exclude jobs enqueued or ended after the dry run. Send it to act on the jobs that were counted. Null for ids."
  }),
  sample: Schema.Array(JobView.JobView),
  undoable: Schema.Boolean.annotations({
    description:
      "Whether the operation can be undone within one hour. Running jobs that were stopped cannot be restored."
  })
}).annotations({
  identifier: "BulkPreview"
})

const Begun = Schema.Struct({ operation: Schema.String }).annotations({ identifier: "BulkBegun" })

export const group = HttpApiGroup.make("operations")
  .add(
    HttpApiEndpoint.post("bulk", "/jobs/bulk")
      .setPayload(BulkRequest)
      .addSuccess(Preview)
      .addSuccess(Begun, { status: 202 })
      .annotateContext(
        about(
          "Run an action on many jobs in the background. A filter without states matches the states that the action applies to; for requeue, only dead jobs. Jobs stored after the start are not included."
        )
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/operations")
      .setUrlParams(Schema.Struct(pageQuery).annotations(WireText.strict))
      .addSuccess(
        Schema.Struct({ operations: Schema.Array(OperationView.OperationView), next: Schema.NullOr(Schema.String) })
      )
      .annotateContext(about("List operations, newest first."))
  )
  .add(
    HttpApiEndpoint.get("get", "/operations/:id")
      .setPath(idPath)
      .addSuccess(OperationView.OperationView)
      .annotateContext(about("Show the progress and result of an operation."))
  )
  .add(
    HttpApiEndpoint.post("cancel", "/operations/:id/cancel")
      .setPath(idPath)
      .addSuccess(OperationView.OperationView)
      .annotateContext(about("Stop an operation before its next batch. Completed changes are not undone."))
  )
  .add(
    HttpApiEndpoint.post("undo", "/operations/:id/undo")
      .setPath(idPath)
      .addSuccess(Begun, { status: 202 })
      .annotateContext(
        about(
          "Restore the jobs of an operation as they were before it: state, start time, attempts, error and reason; deleted jobs with all fields. Runs in the background as an operation itself. Jobs that have changed since are skipped.",
          409
        )
      )
  )

const maxBodyBytes = 1024 * 1024
/** Requires exactly one of ids and filter, and a filter that matches the action. */
const targetOf = ({ action, filter, ids, rehearse }: BulkRequest) =>
  Effect.gen(function* () {
    if (rehearse !== undefined && action !== "requeue") {
      return yield* new BadRequest({ message: "rehearse applies only to requeue.", field: "rehearse" })
    }
    if ((ids === undefined) === (filter === undefined)) {
      return yield* new BadRequest({ message: "Set exactly one of ids and filter.", field: "filter" })
    }
    if (ids !== undefined && (ids.length === 0 || ids.length > maxOperationIds)) {
      return yield* new BadRequest({
        message: `ids must have 1 to ${maxOperationIds} entries, got ${ids.length}.`,
        field: "ids"
      })
    }
    return ids === undefined ? { filter: yield* resolve(action, filter ?? {}) } : { ids }
  })

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "operations">,
  never,
  Operations | JobSearch | JobOverview | ListCache | Transactions | Audit | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "operations", (handlers) =>
  Effect.gen(function* () {
    const operations = yield* Operations
    const search = yield* JobSearch
    const overview = yield* JobOverview
    const lists = yield* ListCache
    const masked = yield* Masked.make
    const { listed } = JobView.maskedBy(masked)
    const audited = yield* Audited.make

    const shown = (operation: Operation) => masked.view(OperationView.of(operation), OperationView.hidden)

    const preview = ({ action, countTo }: BulkRequest, target: Target) =>
      Effect.gen(function* () {
        if (target.filter !== undefined) {
          const { filter, sample, ...found } = yield* previewOf(search, action, target.filter, countTo)
          return { ...found, filter: JobsFilter.view(filter), sample: yield* Effect.forEach(sample, listed) }
        }
        const fit = (yield* overview.listed(target.ids)).filter(({ state }) => isFor(action, state))
        const sample = yield* Effect.forEach(fit.slice(0, sampleSize), ({ id }) => Effect.option(search.get(id)))
        return {
          matched: { count: fit.length, exact: true },
          filter: null,
          sample: yield* Effect.forEach(
            sample.flatMap((job) => (job._tag === "Some" ? [job.value] : [])),
            listed
          ),
          undoable: isUndoable(action, { count: fit.length, exact: true })
        }
      })

    const begin = ({ action, reason, rehearse }: BulkRequest, target: Target) =>
      Effect.gen(function* () {
        const caller = yield* Caller
        const seen =
          target.filter === undefined ? { ids: target.ids.length } : { filter: JobsFilter.view(target.filter) }
        const operation = yield* operations
          .begin({ action, target, who: caller.who, reason: reason ?? caller.reason, rehearse })
          .pipe(
            audited(
              `jobs.${action}`,
              ({ id }) => id,
              ({ total }) => ({ after: { ...seen, total, ...(rehearse === undefined ? {} : { rehearse }) } })
            ),
            Effect.zipLeft(lists.forget)
          )
        return { operation: operation.id }
      }).pipe(withReason(reason))

    return handlers
      .handleRaw("bulk", ({ request }) =>
        Effect.gen(function* () {
          const given = yield* Body.decoded(request, BulkRequest, maxBodyBytes)
          const target = yield* targetOf(given)
          yield* masked.checkFilterAllowed(target.filter?.payload)
          if (given.dryRun === true) return yield* preview(given, target)
          return HttpServerResponse.unsafeJson(yield* begin(given, target), { status: 202 })
        })
      )
      .handle("list", ({ urlParams: { cursor, limit = pageLimits.default } }) =>
        Effect.gen(function* () {
          const page = yield* operations.list({ limit, cursor })
          return { operations: yield* Effect.forEach(page.operations, shown), next: page.next ?? null }
        })
      )
      .handle("get", ({ path }) =>
        operations.get(path.id).pipe(
          // Once the operation has ended, the client usually reloads its lists, so drop cached ones.
          Effect.tap(({ finishedAt }) => (finishedAt === undefined ? Effect.void : lists.forget)),
          Effect.flatMap(shown)
        )
      )
      .handle("cancel", ({ path }) =>
        operations.cancel(path.id).pipe(
          audited("operation.cancel", path.id, ({ done, status }) => ({ after: { done, status } })),
          Effect.flatMap(shown)
        )
      )
      .handle("undo", ({ path }) =>
        Caller.pipe(
          Effect.flatMap(({ reason, who }) => operations.undo(path.id, { who, reason })),
          audited(
            "jobs.undo",
            ({ id }) => id,
            ({ total, undoes }) => ({ after: { undoes, total } })
          ),
          Effect.map(({ id }) => ({ operation: id }))
        )
      )
  })
)
