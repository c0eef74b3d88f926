import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Clock, Effect, type Layer } from "effect"
import type { Audit } from "../../access/Audit.js"
import type { Idempotency } from "../../access/Idempotency.js"
import type { Pods } from "../../cluster/Pods.js"
import { type JobId, makeGenerator } from "../../core/Ids.js"
import { limits, type StoredJob } from "../../core/StoredJob.js"
import type { ClusterConfig } from "../../crew/ClusterConfig.js"
import { explain } from "../../crew/Explain.js"
import type { RateLimits } from "../../limits/RateLimits.js"
import { QueueWaits } from "../../measures/QueueWaits.js"
import { type JobActions, JobAdmin } from "../../queue/admin/JobAdmin.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { Kinds } from "../../queue/Kinds.js"
import type { Queue } from "../../queue/Queue.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { JobDiagnosis } from "../../queue/why/JobDiagnosis.js"
import { Api } from "../Api.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import * as Caller from "../access/Caller.js"
import * as Body from "../Body.js"
import { pageLimits } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { BadRequest } from "../RequestErrors.js"
import * as Views from "../Views.js"
import * as EnqueueEndpoint from "./EnqueueEndpoint.js"
import * as JobPath from "./JobPath.js"
import * as JobSummary from "./JobSummary.js"
import * as JobsContract from "./JobsContract.js"
import { ListCache } from "./ListCache.js"
import * as WhyView from "./WhyView.js"

/** Maximum body size of an edit: a payload and a few fields. */
const mostEditBytes = limits.payloadBytes + 64 * 1024

const mostUndoBytes = 4 * 1024

const readEdit = (request: HttpServerRequest.HttpServerRequest) =>
  Effect.gen(function* () {
    const { force = false, reason, ...edit } = yield* Body.decoded(request, JobsContract.JobEdit, mostEditBytes)
    if (Object.keys(edit).length > 0) return { edit, force, reason }
    return yield* new BadRequest({ message: "The body has nothing to change. Set payload, priority or runAt." })
  })

type Ports = Queue | JobAdmin | JobSearch | Kinds | Transactions | QueueWaits
type Explaining = JobDiagnosis | Pods | RateLimits | ClusterConfig

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "jobs">,
  never,
  Ports | ListCache | Audit | Idempotency | AccessConfig | Explaining
> = HttpApiBuilder.group(Api, "jobs", (handlers) =>
  Effect.gen(function* () {
    const jobAdmin = yield* JobAdmin
    const kinds = yield* Kinds
    const search = yield* JobSearch
    const lists = yield* ListCache
    const views = yield* Views.make
    const audited = yield* Audited.make
    const enqueue = yield* EnqueueEndpoint.make
    const waits = yield* QueueWaits
    const ids = yield* makeGenerator
    const clusterOverview = yield* Effect.context<Explaining>()

    /** Runs an operator's action on one job and stores the job before and after in the audit log. */
    const act = <E extends Problem.ExpectedError>(
      name: string,
      text: string,
      change: (id: JobId) => Effect.Effect<StoredJob, E>,
      summary: (job: StoredJob) => unknown = JobSummary.of
    ) =>
      JobPath.read(text).pipe(
        Effect.flatMap((id) =>
          Effect.zip(search.get(id), change(id)).pipe(
            audited(`job.${name}`, id, ([before, after]) => ({ before: summary(before), after: summary(after) })),
            Effect.zipLeft(lists.forget)
          )
        ),
        Effect.flatMap(([, after]) => views.job(after)),
        Problem.catchErrorsOfOneJob
      )

    /** Runs an action that can be undone. A job that was running or did not change has nothing to undo. */
    const actUndoably = <E extends Problem.ExpectedError>(
      name: string,
      text: string,
      change: (actions: JobActions, id: JobId) => Effect.Effect<StoredJob, E>
    ) =>
      Effect.gen(function* () {
        const id = yield* JobPath.read(text)
        const undo = ids.plain(yield* Clock.currentTimeMillis)
        const [before, after] = yield* Effect.zip(search.get(id), change(jobAdmin.recordingUndo(undo), id)).pipe(
          audited(`job.${name}`, id, ([before, after]) =>
            name === "delete"
              ? { before: JobSummary.withPayload(before) }
              : { before: JobSummary.of(before), after: JobSummary.of(after) }
          ),
          Effect.zipLeft(lists.forget)
        )
        const isKept = before.status !== "running" && (name === "delete" || before.updatedAt !== after.updatedAt)
        return { ...(yield* views.job(after)), undo: isKept ? undo : null }
      })

    /** Checks the payload as on enqueue. A job of an unregistered kind was enqueued with `force` and is not checked. */
    const checkPayload = (id: JobId, payload: unknown) =>
      Effect.gen(function* () {
        const { kind, version } = yield* search.get(id)
        yield* kinds.find(kind).pipe(
          Effect.flatMap((registered) => JobRequests.checkPayload(registered, payload, version)),
          Effect.catchTag("UnknownKind", () => Effect.void)
        )
      })

    const edit = (text: string, { edit, force, reason }: Effect.Effect.Success<ReturnType<typeof readEdit>>) =>
      act(
        "edit",
        text,
        (id) =>
          Effect.zipRight(
            edit.payload === undefined || force ? Effect.void : checkPayload(id, edit.payload),
            Effect.catchTag(jobAdmin.edit(id, edit), "InvalidJob", ({ field, reason }) =>
              Effect.fail(new BadRequest({ message: `${field} ${reason}.`, field }))
            )
          ),
        edit.payload === undefined ? JobSummary.of : JobSummary.withPayload
      ).pipe(Caller.withReason(reason))

    return handlers
      .handleRaw("enqueue", ({ request }) => enqueue(request))
      .handle("list", ({ urlParams: { cursor, limit = pageLimits.default, order = "desc", sort, ...filter } }) =>
        Effect.gen(function* () {
          yield* views.checkFilterAllowed(filter.payload)
          const by = { by: sort ?? "created", descending: order === "desc" }
          const page = yield* lists.page(filter, { limit, cursor, sort: by })
          return {
            jobs: yield* Effect.forEach(page.jobs, views.listed),
            next: page.next ?? null,
            total: page.total,
            sortedAmong: page.sortedAmong ?? null
          }
        }).pipe(Problem.catchErrors)
      )
      .handle("get", ({ path }) =>
        JobPath.read(path.id).pipe(Effect.flatMap(search.get), Effect.flatMap(views.job), Problem.catchErrors)
      )
      .handle("why", ({ path }) =>
        JobPath.read(path.id).pipe(
          Effect.flatMap(explain),
          Effect.map(WhyView.of),
          Effect.provide(clusterOverview),
          Problem.catchErrors
        )
      )
      .handle("waits", ({ path }) =>
        Effect.gen(function* () {
          const job = yield* Effect.flatMap(JobPath.read(path.id), search.get)
          const now = yield* Clock.currentTimeMillis
          const found = yield* waits.during(job.queue, { from: job.createdAt, to: job.finishedAt ?? now })
          const moment = (millis: number | undefined) => (millis === undefined ? null : Instant.format(millis))
          return {
            waits: found.map(({ reason, since, until }) => ({
              reason,
              since: Instant.format(since),
              until: moment(until)
            }))
          }
        }).pipe(Problem.catchErrors)
      )
      .handleRaw("edit", ({ path, request }) =>
        Problem.catchErrors(Effect.flatMap(readEdit(request), (given) => edit(path.id, given)))
      )
      .handle("cancel", ({ path }) =>
        Problem.catchErrorsOfOneJob(actUndoably("cancel", path.id, (actions, id) => actions.cancel(id)))
      )
      .handle("requeue", ({ path }) =>
        Problem.catchErrorsOfOneJob(actUndoably("requeue", path.id, (actions, id) => actions.requeue(id)))
      )
      .handle("runNow", ({ path }) =>
        Problem.catchErrorsOfOneJob(actUndoably("run-now", path.id, (actions, id) => actions.runNow(id)))
      )
      .handle("remove", ({ path }) =>
        Problem.catchErrors(actUndoably("delete", path.id, (actions, id) => actions.remove(id)))
      )
      .handleRaw("undo", ({ path, request }) =>
        Effect.gen(function* () {
          const { undo } = yield* Body.decoded(request, JobsContract.UndoRequest, mostUndoBytes)
          const id = yield* JobPath.read(path.id)
          const job = yield* jobAdmin.undo(id, undo.toLowerCase()).pipe(
            audited("job.undo", id, (job) => ({ after: JobSummary.of(job) })),
            Effect.zipLeft(lists.forget)
          )
          return yield* views.job(job)
        }).pipe(Problem.catchErrors)
      )
  })
)
