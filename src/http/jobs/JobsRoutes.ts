import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Clock, Effect, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import type { Idempotency } from "../../access/Idempotency.js"
import type { Pods } from "../../cluster/Pods.js"
import type { ExpectedError } from "../../core/ExpectedError.js"
import { type JobId, makeGenerator } from "../../core/Ids.js"
import { limits, type StoredJob } from "../../core/StoredJob.js"
import { reading } from "../../database/Replica.js"
import { QueueWaits, WaitReason } from "../../history/QueueWaits.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { type JobActions, JobAdmin } from "../../queue/JobAdmin.js"
import { Kinds } from "../../queue/Kinds.js"
import type { Queue } from "../../queue/Queue.js"
import { JobSearch, maxFound, minIdStart } from "../../queue/search/JobSearch.js"
import { SortField } from "../../queue/search/JobSort.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { JobDiagnosis } from "../../queue/why/JobDiagnosis.js"
import type { RateLimits } from "../../rate-limits/RateLimits.js"
import type { ClusterConfig } from "../../worker/ClusterConfig.js"
import { explain } from "../../worker/Explain.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import * as Caller from "../access/Caller.js"
import * as Masked from "../access/Masked.js"
import * as Body from "../Body.js"
import { about, apiOf, idPath, pageLimits, pageQuery } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { BadRequest } from "../RequestErrors.js"
import * as ResponseFields from "../ResponseFields.js"
import * as WireText from "../WireText.js"
import * as EnqueueEndpoint from "./EnqueueEndpoint.js"
import { EnqueueOutcome, Outcomes } from "./EnqueueOutcome.js"
import { EnqueueRequest } from "./EnqueueRequest.js"
import * as JobPath from "./JobPath.js"
import * as JobSummary from "./JobSummary.js"
import * as JobsFilter from "./JobsFilter.js"
import * as JobView from "./JobView.js"
import { ListCache } from "./ListCache.js"
import * as OncePerKey from "./OncePerKey.js"
import { Total } from "./OperationView.js"
import * as WhyView from "./WhyView.js"

/** Query parameters of `GET /api/v1/jobs`. */
const JobsQuery = Schema.Struct({
  ...JobsFilter.query,
  sort: WireText.optional(
    WireText.oneOf(
      SortField.literals,
      "The column to sort by, `created` by default. `created` covers all matching jobs, as do `due` for scheduled and pending jobs and `finished` for dead and done jobs. Other orders cover only the newest matching jobs; `sortedAmong` is their number."
    )
  ),
  order: WireText.order("Descending by default."),
  ...pageQuery
}).annotations(WireText.strict)

/** Body of `PATCH /api/v1/jobs/{id}`. */
const JobEdit = Schema.Struct({
  payload: WireText.optional(Schema.Unknown),
  priority: WireText.optional(Schema.Number.annotations(WireText.withMessage("must be a number"))),
  runAt: WireText.optional(Instant.Instant),
  reason: WireText.optional(WireText.Text),
  force: WireText.flag("Accept a payload that does not match the kind's schema.")
}).annotations(WireText.body("JobEdit", "must be an object with payload, priority or runAt"))

export const JobsPage = Schema.Struct({
  jobs: Schema.Array(JobView.JobView),
  next: Schema.NullOr(Schema.String),
  total: Total,
  sortedAmong: Schema.NullOr(Schema.Int).annotations({
    description: "How many of the newest jobs the order covers; null if it covers all matching jobs."
  }),
  searched: Schema.NullOr(Schema.Int).annotations({
    description:
      "How many jobs were searched for this page, if no index supports the filter and there are more to search: `next` continues with older ones. Null otherwise."
  })
})

const WaitView = Schema.Struct({ reason: WaitReason, since: Instant.Moment, until: Schema.NullOr(Instant.Moment) })
const waitOf = ResponseFields.of(WaitView)

export const WaitsView = Schema.Struct({
  waits: Schema.Array(WaitView).annotations({
    description: "Oldest first; `until` is null for a wait that has not ended."
  })
}).annotations({ identifier: "JobWaits" })

/** A job after an action. */
export const ActedJob = Schema.Struct({
  ...JobView.JobView.fields,
  undo: Schema.NullOr(Schema.String).annotations({
    description:
      "Id to undo the action with, valid for one hour; null if the job cannot be restored, for example because it was running."
  })
}).annotations({ identifier: "ActedJob" })

/** Body of `POST /api/v1/jobs/{id}/undo`. */
const UndoRequest = Schema.Struct({
  undo: Schema.String.annotations({
    ...WireText.withMessage("must be the undo id that the action returned"),
    description: "The undo id that the action returned."
  })
}).annotations(WireText.body("UndoRequest", "must be an object with undo"))

const act = <const Name extends string>(name: Name, route: `/jobs/:id/${string}`, description: string) =>
  HttpApiEndpoint.post(name, route).setPath(idPath).addSuccess(ActedJob).annotateContext(about(description, 409))

export const group = HttpApiGroup.make("jobs")
  .add(
    HttpApiEndpoint.get("find", "/jobs/find/:text")
      .setPath(
        Schema.Struct({
          text: Schema.String.annotations({
            description: `The beginning of an id, at least ${minIdStart} characters; a dedupe key that a job holds; or the key of an unfinished job.`
          })
        })
      )
      .addSuccess(Schema.Struct({ jobs: Schema.Array(JobView.JobView) }))
      .annotateContext(
        about(
          `Find up to ${maxFound} jobs by id, dedupe key or key, newest first. Reads indexes only, whatever the number of jobs.`
        )
      )
  )
  .add(
    HttpApiEndpoint.post("enqueue", "/jobs")
      .setPayload(EnqueueRequest)
      .setHeaders(OncePerKey.headers)
      .addSuccess(Outcomes, { status: 201 })
      .addSuccess(EnqueueOutcome, { status: 201 })
      .annotateContext(
        about(
          'Enqueue jobs atomically. `{"jobs": [...]}` returns a list in the same order; a single job without a list returns a single result.',
          409,
          422
        )
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/jobs")
      .setUrlParams(JobsQuery)
      .addSuccess(JobsPage)
      .annotateContext(
        about("List jobs, newest first or by `sort`. A cursor is valid only for the same sort and order.")
      )
  )
  .add(HttpApiEndpoint.get("get", "/jobs/:id").setPath(idPath).addSuccess(JobView.JobView))
  .add(
    HttpApiEndpoint.get("why", "/jobs/:id/why")
      .setPath(idPath)
      .addSuccess(WhyView.WhyView)
      .annotateContext(about("Explain why a job is not running, or show its state."))
  )
  .add(
    HttpApiEndpoint.get("waits", "/jobs/:id/waits")
      .setPath(idPath)
      .addSuccess(WaitsView)
      .annotateContext(
        about(
          "List the reasons for which due jobs of this job's queue waited, from its enqueue until it ended. Recorded every few seconds, for waits of more than five seconds."
        )
      )
  )
  .add(
    HttpApiEndpoint.patch("edit", "/jobs/:id")
      .setPath(idPath)
      .setPayload(JobEdit)
      .addSuccess(JobView.JobView)
      .annotateContext(about("Change the payload, priority or start time of a pending job.", 409))
  )
  .add(
    act(
      "cancel",
      "/jobs/:id/cancel",
      "Cancel a job. A pending job becomes cancelled at once; a running job is asked to stop."
    )
  )
  .add(act("requeue", "/jobs/:id/requeue", "Requeue a dead, cancelled or done job with its attempts reset."))
  .add(act("runNow", "/jobs/:id/run-now", "Make a pending job due now."))
  .add(
    HttpApiEndpoint.post("undo", "/jobs/:id/undo")
      .setPath(idPath)
      .setPayload(UndoRequest)
      .addSuccess(JobView.JobView)
      .annotateContext(
        about(
          "Undo a cancel, requeue, run-now or delete: restore the job as it was, with its start time, attempts, error and reason. Refused if the job has changed since.",
          409
        )
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/jobs/:id")
      .setPath(idPath)
      .addSuccess(ActedJob)
      .annotateContext(about("Delete a job that is not running. Returns the deleted job.", 409))
  )

/** Maximum body size of an edit: a payload and a few fields. */
const maxEditBytes = limits.payloadBytes + 64 * 1024

const maxUndoBytes = 4 * 1024

const readEdit = (request: HttpServerRequest.HttpServerRequest) =>
  Effect.gen(function* () {
    const { force = false, reason, ...edit } = yield* Body.decoded(request, JobEdit, maxEditBytes)
    if (Object.keys(edit).length > 0) return { edit, force, reason }
    return yield* new BadRequest({ message: "The body has nothing to change. Set payload, priority or runAt." })
  })

type Ports = Queue | JobAdmin | JobSearch | Kinds | Transactions | QueueWaits
type Explaining = JobDiagnosis | Pods | RateLimits | ClusterConfig

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "jobs">,
  never,
  Ports | ListCache | Audit | Idempotency | AccessConfig | Explaining
> = HttpApiBuilder.group(apiOf(group), "jobs", (handlers) =>
  Effect.gen(function* () {
    const jobAdmin = yield* JobAdmin
    const kinds = yield* Kinds
    const search = yield* JobSearch
    const lists = yield* ListCache
    const masked = yield* Masked.make
    const views = JobView.maskedBy(masked)
    const audited = yield* Audited.make
    const enqueue = yield* EnqueueEndpoint.make
    const waits = yield* QueueWaits
    const ids = yield* makeGenerator
    const clusterOverview = yield* Effect.context<Explaining>()

    /** Runs an operator's action on one job and stores the job before and after in the audit log. */
    const act = <E extends ExpectedError>(
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
    const actUndoably = <E extends ExpectedError>(
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
              ? { id: undo, before: JobSummary.withPayload(before) }
              : { id: undo, before: JobSummary.of(before), after: JobSummary.of(after) }
          ),
          Effect.zipLeft(lists.forget)
        )
        const isKept = before.state !== "running" && (name === "delete" || before.updatedAt !== after.updatedAt)
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
      .handle("find", ({ path: { text } }) =>
        Effect.gen(function* () {
          return { jobs: yield* Effect.forEach(yield* reading(search.find(text)), views.listed) }
        })
      )
      .handle("list", ({ urlParams: { cursor, limit = pageLimits.default, order = "desc", sort, ...filter } }) =>
        Effect.gen(function* () {
          yield* masked.checkFilterAllowed(filter.payload)
          const by = { by: sort ?? "created", descending: order === "desc" }
          const page = yield* reading(lists.page(filter, { limit, cursor, sort: by }))
          return {
            jobs: yield* Effect.forEach(page.jobs, views.listed),
            next: page.next ?? null,
            total: page.total,
            sortedAmong: page.sortedAmong ?? null,
            searched: page.searched ?? null
          }
        })
      )
      .handle("get", ({ path }) => JobPath.read(path.id).pipe(Effect.flatMap(search.get), Effect.flatMap(views.job)))
      .handle("why", ({ path }) =>
        JobPath.read(path.id).pipe(Effect.flatMap(explain), Effect.map(WhyView.of), Effect.provide(clusterOverview))
      )
      .handle("waits", ({ path }) =>
        Effect.gen(function* () {
          const job = yield* Effect.flatMap(JobPath.read(path.id), search.get)
          const now = yield* Clock.currentTimeMillis
          const found = yield* waits.during(job.queue, { from: job.createdAt, to: job.finishedAt ?? now })
          return { waits: found.map((wait) => waitOf(wait)) }
        })
      )
      .handleRaw("edit", ({ path, request }) => Effect.flatMap(readEdit(request), (given) => edit(path.id, given)))
      .handle("cancel", ({ path }) =>
        Problem.catchErrorsOfOneJob(actUndoably("cancel", path.id, (actions, id) => actions.cancel(id)))
      )
      .handle("requeue", ({ path }) =>
        Problem.catchErrorsOfOneJob(actUndoably("requeue", path.id, (actions, id) => actions.requeue(id)))
      )
      .handle("runNow", ({ path }) =>
        Problem.catchErrorsOfOneJob(actUndoably("run-now", path.id, (actions, id) => actions.runNow(id)))
      )
      .handle("remove", ({ path }) => actUndoably("delete", path.id, (actions, id) => actions.remove(id)))
      .handleRaw("undo", ({ path, request }) =>
        Effect.gen(function* () {
          const { undo } = yield* Body.decoded(request, UndoRequest, maxUndoBytes)
          const id = yield* JobPath.read(path.id)
          const job = yield* jobAdmin.undo(id, undo.toLowerCase()).pipe(
            audited("job.undo", id, (job) => ({ after: { undoes: undo.toLowerCase(), ...JobSummary.of(job) } })),
            Effect.zipLeft(lists.forget)
          )
          return yield* views.job(job)
        })
      )
  })
)
