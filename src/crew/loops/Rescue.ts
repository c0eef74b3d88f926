import { type Duration, Effect } from "effect"
import type { Report } from "../../core/Loop.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Queue } from "../../queue/Queue.js"

/** Takes back what runs without a sign of life for so long. The queue counts it, by kind. */
export const make: Effect.Effect<(quietFor: Duration.Duration) => Effect.Effect<Report, DatabaseError>, never, Queue> =
  Effect.map(
    Queue,
    (queue) => (quietFor) => Effect.map(queue.recoverStuck(quietFor), (recovered) => ({ ...recovered }))
  )
