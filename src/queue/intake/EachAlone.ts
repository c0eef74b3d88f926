import { Effect } from "effect"
import type { Queue } from "../Queue.js"

/** Enqueues one job after the other, each on its own. */
export const eachAlone =
  (enqueue: typeof Queue.Service.enqueue): typeof Queue.Service.enqueueEach =>
  (jobs) =>
    Effect.forEach(jobs, (job) =>
      Effect.exit(
        Effect.flatMap(enqueue([job]), ([answer]) =>
          answer === undefined ? Effect.dieMessage("a job was not answered for") : Effect.succeed(answer)
        )
      )
    )
