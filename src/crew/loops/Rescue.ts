import { type Duration, Effect } from "effect"
import type { Report } from "../../core/Loop.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Queue } from "../../queue/Queue.js"

/** Returns running jobs without a heartbeat for this long to the queue. The queue counts them by kind. */
export const make: Effect.Effect<(quietFor: Duration.Duration) => Effect.Effect<Report, DatabaseError>, never, Queue> =
  Effect.map(
    Queue,
    (queue) => (quietFor) => Effect.map(queue.recoverStuck(quietFor), (recovered) => ({ ...recovered }))
  )
