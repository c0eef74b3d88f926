import { Effect } from "effect"
import type { Queue } from "../Queue.js"

/** Enqueues each job on its own, sequentially by default. */
export const oneByOne =
  (enqueue: typeof Queue.Service.enqueue, concurrency: 1 | "unbounded" = 1): typeof Queue.Service.enqueueEach =>
  (jobs) =>
    Effect.forEach(
      jobs,
      (job) =>
        Effect.exit(
          Effect.flatMap(enqueue([job]), ([answer]) =>
            answer === undefined ? Effect.dieMessage("a job has no result") : Effect.succeed(answer)
          )
        ),
      { concurrency }
    )
