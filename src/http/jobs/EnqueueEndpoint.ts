import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Effect, Schema } from "effect"
import type { Idempotency } from "../../access/Idempotency.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import type { Kinds } from "../../queue/Kinds.js"
import { Queue } from "../../queue/Queue.js"
import type { Transactions } from "../../queue/Transactions.js"
import * as Deadline from "../access/Deadline.js"
import * as Body from "../Body.js"
import * as Problem from "../Problem.js"
import { derivedId } from "./DerivedId.js"
import { Outcomes } from "./EnqueueOutcome.js"
import * as EnqueueRequest from "./EnqueueRequest.js"
import * as OncePerKey from "./OncePerKey.js"

const maxBodyBytes = 8 * 1024 * 1024

const decodeOutcomes = Schema.decodeUnknown(Outcomes)

const store = (jobs: ReadonlyArray<JobRequests.JobRequest>, force: boolean) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    return { jobs: yield* queue.enqueue(yield* JobRequests.resolve(jobs, { force, check: true })) }
  })

const storeRequest = ({ force, jobs }: EnqueueRequest.Decoded, key: string | undefined, body: unknown) =>
  Effect.gen(function* () {
    if (key === undefined) return yield* store(jobs, force)
    const answer = yield* OncePerKey.run(key, JSON.stringify(body), (firstSeen) =>
      store(
        jobs.map((job, place) => ({ ...job, id: job.id ?? derivedId(key, place, firstSeen) })),
        force
      )
    )
    return yield* Effect.orDie(decodeOutcomes(answer))
  })

const handle = (request: HttpServerRequest.HttpServerRequest) =>
  Effect.gen(function* () {
    const key = yield* OncePerKey.keyOf(request)
    const body = yield* Body.json(request, maxBodyBytes)
    const decoded = yield* EnqueueRequest.decode(body)
    const stored = Deadline.rolledBackAfter(storeRequest(decoded, key, body))
    if (!decoded.single) return yield* Problem.catchErrors(stored)
    const one = Effect.flatMap(stored, ({ jobs: [only] }) =>
      only === undefined ? Effect.dieMessage("a job has no result") : Effect.succeed(only)
    )
    return yield* Problem.catchErrorsOfOneJob(one)
  }).pipe(Problem.catchErrors)

/** Stores the jobs of a request. With an Idempotency-Key, repeated requests store them once. */
export const make = Effect.map(
  Effect.context<Queue | Kinds | Idempotency | Transactions>(),
  (context) => (request: HttpServerRequest.HttpServerRequest) => Effect.provide(handle(request), context)
)
