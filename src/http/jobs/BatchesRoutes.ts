import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Clock, Effect, Either, type Layer } from "effect"
import type { Idempotency } from "../../access/Idempotency.js"
import { type BatchId, isId, type JobId } from "../../core/Ids.js"
import { type Batch, Batches, BatchNotFound, InvalidBatch } from "../../queue/batch/Batches.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { followUpOf } from "../../queue/Job.js"
import type { Kinds } from "../../queue/Kinds.js"
import type { Enqueued } from "../../queue/Queue.js"
import { Api } from "../Api.js"
import * as Body from "../Body.js"
import { pageLimits } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { AddJobsRequest, type BatchView, NewBatchRequest } from "./BatchesContract.js"
import { derivedId } from "./DerivedId.js"
import * as EnqueueRequest from "./EnqueueRequest.js"
import * as OncePerKey from "./OncePerKey.js"

const mostBodyBytes = 8 * 1024 * 1024

export const viewOf = (batch: Batch): BatchView => ({
  id: batch.id,
  name: batch.name ?? null,
  createdAt: Instant.format(batch.createdAt),
  closedAt: batch.closedAt === undefined ? null : Instant.format(batch.closedAt),
  total: batch.total,
  counts: batch.counts,
  followUp:
    batch.followUp === undefined
      ? null
      : {
          kind: batch.followUp.kind,
          queue: batch.followUp.queue,
          id: (batch.followUpId as JobId | undefined) ?? null
        }
})

const outcomes = (answers: ReadonlyArray<Enqueued>) =>
  answers.map(({ _tag, id }) => ({
    id,
    outcome: _tag === "Enqueued" ? ("enqueued" as const) : ("deduplicated" as const)
  }))

/** Fills in the kinds' defaults, as for jobs outside of a batch. */
const resolve = (jobs: ReadonlyArray<EnqueueRequest.JobToEnqueue>, force = false) =>
  Effect.gen(function* () {
    if (jobs.length === 0) return []
    const now = yield* Clock.currentTimeMillis
    const requests = yield* Either.all(jobs.map((job, index) => EnqueueRequest.toRequest(job, index, jobs.length, now)))
    return yield* JobRequests.resolve(requests, { force, check: true })
  })

/** Resolves the follow-up like a job. It keeps no options but these. */
const resolveFollowUp = (followUp: NewBatchRequest["followUp"], force = false) =>
  Effect.gen(function* () {
    if (followUp === undefined) return undefined
    const [job] = yield* JobRequests.resolve([followUp], { force, check: true }).pipe(
      Effect.catchTags({
        InvalidJob: ({ field, reason }) => new InvalidBatch({ field: `followUp.${field}`, reason }),
        KindRefused: ({ kind }) =>
          new InvalidBatch({ field: "followUp.kind", reason: `"${kind}" is not registered by any pod` })
      })
    )
    return job === undefined ? undefined : followUpOf({ ...job, name: job.kind }, { payload: job.payload })
  })

/** Answers with the result of `act`, which runs once per Idempotency-Key. It gets the id of a new batch for the key. */
const oncePerKey = <E, R>(
  request: HttpServerRequest.HttpServerRequest,
  content: unknown,
  act: (derived: BatchId | undefined) => Effect.Effect<unknown, E, R>
) =>
  Effect.gen(function* () {
    const key = yield* OncePerKey.keyOf(request)
    const answer =
      key === undefined
        ? yield* act(undefined)
        : yield* OncePerKey.run(key, JSON.stringify(content), (firstSeen) =>
            act(derivedId(key, 0, firstSeen) as string as BatchId)
          )
    return HttpServerResponse.unsafeJson(answer, { status: 201 })
  })

const idOf = (id: string): Effect.Effect<BatchId, BatchNotFound> =>
  isId(id) ? Effect.succeed(id as BatchId) : new BatchNotFound({ id: id.slice(0, 64) })

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "batches">,
  never,
  Batches | Kinds | Idempotency
> = HttpApiBuilder.group(Api, "batches", (handlers) =>
  Effect.gen(function* () {
    const batches = yield* Batches
    const context = yield* Effect.context<Kinds | Idempotency>()
    return handlers
      .handleRaw("create", ({ request }) =>
        Effect.gen(function* () {
          const body = yield* Body.decoded(request, NewBatchRequest, mostBodyBytes)
          const { followUp, force, id, jobs, name } = body
          const batch = {
            name,
            followUp: yield* resolveFollowUp(followUp, force),
            jobs: yield* resolve(jobs, force)
          }
          return yield* oncePerKey(request, { batch: body }, (derived) =>
            Effect.map(batches.create({ ...batch, id: id ?? derived }), (stored) => ({
              batch: viewOf(stored.batch),
              jobs: outcomes(stored.jobs)
            }))
          )
        }).pipe(Effect.provide(context), Problem.catchErrors)
      )
      .handle("list", ({ urlParams: { cursor, limit = pageLimits.default } }) =>
        batches.list({ limit: Math.min(limit, 100), cursor }).pipe(
          Effect.map((page) => ({ batches: page.batches.map(viewOf), next: page.next ?? null })),
          Problem.catchErrors
        )
      )
      .handle("get", ({ path }) =>
        idOf(path.id).pipe(Effect.flatMap(batches.get), Effect.map(viewOf), Problem.catchErrors)
      )
      .handleRaw("add", ({ path, request }) =>
        Effect.gen(function* () {
          const id = yield* idOf(path.id)
          const body = yield* Body.decoded(request, AddJobsRequest, mostBodyBytes)
          const jobs = yield* resolve(body.jobs, body.force)
          return yield* oncePerKey(request, { addTo: id, ...body }, () =>
            Effect.map(batches.add(id, jobs), (answers) => ({ jobs: outcomes(answers) }))
          )
        }).pipe(Effect.provide(context), Problem.catchErrors)
      )
  })
)
