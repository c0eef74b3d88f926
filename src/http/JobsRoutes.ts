import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer, Schema } from "effect"
import { JobId } from "../core/Ids.js"
import type { StoredJob } from "../core/Job.js"
import { JobDesk } from "../queue/JobDesk.js"
import { JobNotFound } from "../queue/JobErrors.js"
import { JobSearch } from "../queue/JobSearch.js"
import type { Kinds } from "../queue/Kinds.js"
import { Queue } from "../queue/Queue.js"
import { Api } from "./Api.js"
import * as Body from "./Body.js"
import { pageLimits } from "./Contract.js"
import * as EnqueueRequest from "./EnqueueRequest.js"
import * as Intake from "./Intake.js"
import * as JobView from "./JobView.js"
import * as Problem from "./Problem.js"

const mostBodyBytes = 8 * 1024 * 1024

/** Counting on would read the whole table for a number that nobody acts on. */
const countedUpTo = 10_000

const readId = Schema.decodeOption(JobId)

/** What cannot be an id is the id of no job. */
const withJob = <E extends Problem.Foreseen, R>(text: string, act: (id: JobId) => Effect.Effect<StoredJob, E, R>) =>
  readId(text.toLowerCase()).pipe(
    Effect.mapError(() => new JobNotFound({ id: text.slice(0, 64) })),
    Effect.flatMap(act),
    Effect.map(JobView.of),
    Problem.answered
  )

/** Jobs: store, find, act on. */
export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "jobs">,
  never,
  Queue | JobDesk | JobSearch | Kinds
> = HttpApiBuilder.group(Api, "jobs", (handlers) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const desk = yield* JobDesk
    const search = yield* JobSearch
    return handlers
      .handleRaw("enqueue", ({ request }) =>
        Effect.gen(function* () {
          const body = yield* Body.json(request, mostBodyBytes)
          const { force = false, jobs } = yield* EnqueueRequest.decode(body)
          const enqueued = yield* queue.enqueue(yield* Intake.resolve(jobs, { force }))
          return {
            jobs: enqueued.map(({ _tag, id }) => ({
              id,
              outcome: _tag === "Enqueued" ? ("enqueued" as const) : ("deduplicated" as const)
            }))
          }
        }).pipe(Problem.answered)
      )
      .handle("list", ({ urlParams: { cursor, limit = pageLimits.usual, ...filter } }) =>
        Effect.gen(function* () {
          const page = yield* search.list(filter, { limit, cursor })
          const total = yield* search.total(filter, countedUpTo)
          return { jobs: page.jobs.map(JobView.of), next: page.next ?? null, total }
        }).pipe(Problem.answered)
      )
      .handle("get", ({ path }) => withJob(path.id, search.get))
      .handle("cancel", ({ path }) => withJob(path.id, desk.cancel))
      .handle("requeue", ({ path }) => withJob(path.id, desk.requeue))
      .handle("runNow", ({ path }) => withJob(path.id, desk.runNow))
      .handle("remove", ({ path }) => withJob(path.id, desk.remove))
  })
)
