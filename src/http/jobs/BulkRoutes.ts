import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer } from "effect"
import type { Audit } from "../../access/Audit.js"
import { isFor, resolve } from "../../queue/admin/OperationScope.js"
import { isUndoable, mostIds, type Operation, Operations, type Target } from "../../queue/admin/Operations.js"
import { JobOverview } from "../../queue/search/JobOverview.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import type { Transactions } from "../../queue/Transactions.js"
import { Api } from "../Api.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import { Caller, withReason } from "../access/Caller.js"
import * as Body from "../Body.js"
import { pageLimits } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { BadRequest } from "../RequestErrors.js"
import * as Views from "../Views.js"
import { BulkRequest, type OperationView } from "./BulkContract.js"
import * as JobsFilter from "./JobsFilter.js"
import { ListCache } from "./ListCache.js"

const mostBodyBytes = 1024 * 1024
const sampleSize = 10

/** Maximum count in a preview. */
const countedUpTo = 100_000

/** Requires exactly one of ids and filter, and a filter that matches the action. */
const targetOf = ({ action, filter, ids }: BulkRequest) =>
  Effect.gen(function* () {
    if ((ids === undefined) === (filter === undefined)) {
      return yield* new BadRequest({ message: "Set exactly one of ids and filter.", field: "filter" })
    }
    if (ids !== undefined && (ids.length === 0 || ids.length > mostIds)) {
      return yield* new BadRequest({
        message: `ids must have 1 to ${mostIds} entries, got ${ids.length}.`,
        field: "ids"
      })
    }
    return ids === undefined ? { filter: yield* resolve(action, filter ?? {}) } : { ids }
  })

const viewOf = (operation: Operation, filter: unknown): OperationView => ({
  id: operation.id,
  action: operation.action,
  undoes: operation.undoes ?? null,
  undoable: operation.undoable,
  status: operation.status,
  who: operation.who,
  reason: operation.reason ?? null,
  filter,
  createdAt: Instant.format(operation.createdAt),
  updatedAt: Instant.format(operation.updatedAt),
  finishedAt: operation.finishedAt === undefined ? null : Instant.format(operation.finishedAt),
  total: operation.total ?? null,
  done: operation.done,
  skipped: operation.skipped,
  failed: operation.failed,
  error: operation.error ?? null
})

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "operations">,
  never,
  Operations | JobSearch | JobOverview | ListCache | Transactions | Audit | AccessConfig
> = HttpApiBuilder.group(Api, "operations", (handlers) =>
  Effect.gen(function* () {
    const operations = yield* Operations
    const search = yield* JobSearch
    const overview = yield* JobOverview
    const lists = yield* ListCache
    const views = yield* Views.make
    const audited = yield* Audited.make

    const shown = (operation: Operation) =>
      Effect.map(
        operation.filter === undefined ? Effect.succeed(null) : views.json(JobsFilter.view(operation.filter)),
        (filter) => viewOf(operation, filter)
      )

    const preview = (action: BulkRequest["action"], target: Target) =>
      Effect.gen(function* () {
        if (target.filter !== undefined) {
          const matched = yield* search.total(target.filter, countedUpTo)
          const { jobs } = yield* search.list(target.filter, { limit: sampleSize })
          return {
            matched,
            sample: yield* Effect.forEach(jobs, views.listed),
            undoable: isUndoable(action, matched)
          }
        }
        const fit = (yield* overview.listed(target.ids)).filter(({ state }) => isFor(action, state))
        const sample = yield* Effect.forEach(fit.slice(0, sampleSize), ({ id }) => Effect.option(search.get(id)))
        return {
          matched: { count: fit.length, exact: true },
          sample: yield* Effect.forEach(
            sample.flatMap((job) => (job._tag === "Some" ? [job.value] : [])),
            views.listed
          ),
          undoable: isUndoable(action, { count: fit.length, exact: true })
        }
      })

    const begin = ({ action, reason }: BulkRequest, target: Target) =>
      Effect.gen(function* () {
        const caller = yield* Caller
        const seen =
          target.filter === undefined ? { ids: target.ids.length } : { filter: JobsFilter.view(target.filter) }
        const operation = yield* operations
          .begin({ action, target, who: caller.who, reason: reason ?? caller.reason })
          .pipe(
            audited(
              `jobs.${action}`,
              ({ id }) => id,
              ({ total }) => ({ after: { ...seen, total } })
            ),
            Effect.zipLeft(lists.forget)
          )
        return { operation: operation.id }
      }).pipe(withReason(reason))

    return handlers
      .handleRaw("bulk", ({ request }) =>
        Effect.gen(function* () {
          const given = yield* Body.decoded(request, BulkRequest, mostBodyBytes)
          const target = yield* targetOf(given)
          if (given.dryRun === true) return yield* preview(given.action, target)
          return HttpServerResponse.unsafeJson(yield* begin(given, target), { status: 202 })
        }).pipe(Problem.catchErrors)
      )
      .handle("list", ({ urlParams: { cursor, limit = pageLimits.default } }) =>
        Effect.gen(function* () {
          const page = yield* operations.list({ limit, cursor })
          return { operations: yield* Effect.forEach(page.operations, shown), next: page.next ?? null }
        }).pipe(Problem.catchErrors)
      )
      .handle("get", ({ path }) =>
        operations.get(path.id).pipe(
          // Once the operation has ended, the client usually reloads its lists, so drop cached ones.
          Effect.tap(({ finishedAt }) => (finishedAt === undefined ? Effect.void : lists.forget)),
          Effect.flatMap(shown),
          Problem.catchErrors
        )
      )
      .handle("cancel", ({ path }) =>
        operations.cancel(path.id).pipe(
          audited("operation.cancel", path.id, ({ done, status }) => ({ after: { done, status } })),
          Effect.flatMap(shown),
          Problem.catchErrors
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
          Effect.map(({ id }) => ({ operation: id })),
          Problem.catchErrors
        )
      )
  })
)
