import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer, Schema } from "effect"
import type { Idempotency } from "../../access/Idempotency.js"
import { BatchId, isId } from "../../core/Ids.js"
import { Batches, BatchNotFound, InvalidBatch, maxBatchJobs, maxBatchPage } from "../../queue/batch/Batches.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { followUpOf } from "../../queue/Job.js"
import type { Kinds } from "../../queue/Kinds.js"
import type { Transactions } from "../../queue/Transactions.js"
import * as Deadline from "../access/Deadline.js"
import * as Body from "../Body.js"
import { about, apiOf, idPath, pageLimits, pageQuery } from "../Contract.js"
import * as WireText from "../WireText.js"
import * as BatchView from "./BatchView.js"
import { derivedId } from "./DerivedId.js"
import { EnqueueOutcome } from "./EnqueueOutcome.js"
import { force, JobToEnqueue } from "./EnqueueRequest.js"
import * as OncePerKey from "./OncePerKey.js"

const jobs = Schema.Array(JobToEnqueue).annotations({
  message: () => "must be a list of jobs",
  description: `Up to ${maxBatchJobs} jobs of any kinds.`
})

/** Body of `POST /api/v1/batches`. */
const NewBatchRequest = Schema.Struct({
  jobs,
  followUp: WireText.optional(
    JobToEnqueue.pick("kind", "payload", "queue", "attempts").annotations({
      message: () => "must be an object with kind and payload",
      description:
        "Enqueued once when all jobs have ended, whatever their result. Its `meta.batch` has the batch's id and counts."
    })
  ),
  name: WireText.optional(WireText.Text),
  subject: WireText.optional(WireText.Subject),
  id: WireText.optional(
    BatchId.annotations({
      ...WireText.withMessage("must be a UUID"),
      description: "Makes the request safe to retry: if the batch exists, nothing is stored."
    })
  ),
  force
}).annotations(WireText.body("NewBatchRequest", "must be an object with the field jobs"))
type NewBatchRequest = typeof NewBatchRequest.Type

/** Body of `POST /api/v1/batches/{id}/jobs`. */
const AddJobsRequest = Schema.Struct({ jobs, force }).annotations(
  WireText.body("AddJobsRequest", "must be an object with the field jobs")
)

const Outcomes = Schema.Array(EnqueueOutcome)

const Created = Schema.Struct({
  batch: BatchView.BatchView,
  jobs: Outcomes.annotations({
    description: "In the order of the request; empty if the batch existed. Deduplicated jobs are not part of the batch."
  })
}).annotations({ identifier: "CreatedBatch" })

export const group = HttpApiGroup.make("batches")
  .add(
    HttpApiEndpoint.post("create", "/batches")
      .setPayload(NewBatchRequest)
      .setHeaders(OncePerKey.headers)
      .addSuccess(Created, { status: 201 })
      .annotateContext(
        about(
          "Enqueue jobs as a batch, all or none, with one follow-up that runs when all of them have ended.",
          409,
          422
        )
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/batches")
      .setUrlParams(Schema.Struct(pageQuery).annotations(WireText.strict))
      .addSuccess(Schema.Struct({ batches: Schema.Array(BatchView.BatchView), next: Schema.NullOr(Schema.String) }))
      .annotateContext(about("List batches, newest first."))
  )
  .add(
    HttpApiEndpoint.get("get", "/batches/:id")
      .setPath(idPath)
      .addSuccess(BatchView.BatchView)
      .annotateContext(about("Show a batch and the progress of its jobs. List its jobs with /jobs?batch=<id>."))
  )
  .add(
    HttpApiEndpoint.post("add", "/batches/:id/jobs")
      .setPath(idPath)
      .setPayload(AddJobsRequest)
      .setHeaders(OncePerKey.headers)
      .addSuccess(Schema.Struct({ jobs: Outcomes }), { status: 201 })
      .annotateContext(about("Add jobs to an open batch, all or none. Fails if the batch is closed.", 409, 422))
  )

const maxBodyBytes = 8 * 1024 * 1024

/** Fills in the kinds' defaults, as for jobs outside of a batch. */
const resolve = (jobs: ReadonlyArray<JobToEnqueue>, force = false) =>
  jobs.length === 0 ? Effect.succeed([]) : JobRequests.resolve(jobs, { force, check: true })

/** Resolves the follow-up like a job. It keeps no options but these. */
const resolveFollowUp = (followUp: NewBatchRequest["followUp"], force = false) =>
  Effect.gen(function* () {
    if (followUp === undefined) return undefined
    const [job] = yield* JobRequests.resolve([followUp], { force, check: true }).pipe(
      Effect.catchTags({
        InvalidJob: ({ field, reason }) => new InvalidBatch({ field: `followUp.${field}`, reason }),
        KindRefused: ({ kind }) =>
          new InvalidBatch({ field: "followUp.kind", reason: `"${kind}" is not registered by any process` })
      })
    )
    return job === undefined ? undefined : followUpOf({ ...job, name: job.kind }, { payload: job.payload })
  })

/**
 * Answers with the result of `act`, which runs once per Idempotency-Key. It gets the id of a new batch for the key. It
 * also checks the jobs: a repeated request gets the stored answer even if its kinds have changed since.
 */
const oncePerKey = <E, R>(
  request: HttpServerRequest.HttpServerRequest,
  content: unknown,
  act: (derived: BatchId | undefined) => Effect.Effect<unknown, E, R>
) =>
  Effect.gen(function* () {
    const key = yield* OncePerKey.keyOf(request)
    const answer = yield* Deadline.rolledBackAfter(
      key === undefined
        ? act(undefined)
        : OncePerKey.run(key, JSON.stringify(content), (firstSeen) =>
            act(derivedId(key, 0, firstSeen) as string as BatchId)
          )
    )
    return HttpServerResponse.unsafeJson(answer, { status: 201 })
  })

const idOf = (id: string): Effect.Effect<BatchId, BatchNotFound> =>
  isId(id) ? Effect.succeed(id as BatchId) : new BatchNotFound({ id: id.slice(0, 64) })

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "batches">,
  never,
  Batches | Kinds | Idempotency | Transactions
> = HttpApiBuilder.group(apiOf(group), "batches", (handlers) =>
  Effect.gen(function* () {
    const batches = yield* Batches
    const context = yield* Effect.context<Kinds | Idempotency | Transactions>()
    return handlers
      .handleRaw("create", ({ request }) =>
        Effect.gen(function* () {
          const body = yield* Body.decoded(request, NewBatchRequest, maxBodyBytes)
          const { followUp, force, id, jobs, name, subject } = body
          return yield* oncePerKey(request, { batch: body }, (derived) =>
            Effect.gen(function* () {
              const stored = yield* batches.create({
                name,
                subject,
                followUp: yield* resolveFollowUp(followUp, force),
                jobs: yield* resolve(jobs, force),
                id: id ?? derived
              })
              return { batch: BatchView.of(stored.batch), jobs: stored.jobs }
            })
          )
        }).pipe(Effect.provide(context))
      )
      .handle("list", ({ urlParams: { cursor, limit = pageLimits.default } }) =>
        batches
          .list({ limit: Math.min(limit, maxBatchPage), cursor })
          .pipe(Effect.map((page) => ({ batches: page.batches.map(BatchView.of), next: page.next ?? null })))
      )
      .handle("get", ({ path }) => idOf(path.id).pipe(Effect.flatMap(batches.get), Effect.map(BatchView.of)))
      .handleRaw("add", ({ path, request }) =>
        Effect.gen(function* () {
          const id = yield* idOf(path.id)
          const body = yield* Body.decoded(request, AddJobsRequest, maxBodyBytes)
          return yield* oncePerKey(request, { addTo: id, ...body }, () =>
            Effect.gen(function* () {
              return { jobs: yield* batches.add(id, yield* resolve(body.jobs, body.force)) }
            })
          )
        }).pipe(Effect.provide(context))
      )
  })
)
