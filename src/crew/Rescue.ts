import { type Duration, Effect } from "effect"
import type { Report } from "../core/Loop.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { Queue } from "../queue/Queue.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"

const rescued = MetricSpec.counter("jobs_rescued_total", "Jobs that were taken back because their pod went quiet.")

/** Takes back what runs without a sign of life for so long, and counts it. */
export const make: Effect.Effect<
  (quietFor: Duration.Duration) => Effect.Effect<Report, DatabaseError>,
  never,
  Queue | Metrics
> = Effect.gen(function* () {
  const queue = yield* Queue
  const count = (yield* Metrics).series(rescued, {})
  return (quietFor) =>
    Effect.map(queue.recoverStuck(quietFor), (recovered) => {
      count.add(recovered.rescued + recovered.poisoned + recovered.cancelled)
      return { ...recovered }
    })
})
