import { Duration, Effect, Schedule } from "effect"
import { AccessRetentionConfig } from "../../access/AccessCleanup.js"
import { Leadership } from "../../cluster/Leadership.js"
import type { LeaderLoop, Step } from "../../core/Loop.js"
import { Operations } from "../../queue/admin/Operations.js"
import { Batches } from "../../queue/batch/Batches.js"
import { Events } from "../../queue/events/Events.js"
import { JobAdmin, undoFor } from "../../queue/JobAdmin.js"
import { Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../ClusterConfig.js"

/** Deletes what is left of bulk operations. The audit log has their results, so their progress is deleted after 7 days at most. */
export const operations: Effect.Effect<Step, never, Operations | AccessRetentionConfig> = Effect.gen(function* () {
  const { purge } = yield* Operations
  const { auditRetention } = yield* AccessRetentionConfig
  const retention = Duration.min(auditRetention, Duration.days(7))
  return { name: "operations", run: Effect.map(purge(retention), (gone) => ({ gone })) }
})

/** Deletes the undo records of an operator's action when the action can no longer be undone. */
export const undo: Effect.Effect<Step, never, JobAdmin> = Effect.map(JobAdmin, ({ pruneUndo }) => ({
  name: "undo",
  run: Effect.map(pruneUndo(undoFor), (gone) => ({ gone }))
}))

/** Generous, because a large backlog takes many batches. */
const timeout = "10 minutes"

/**
 * Deletes data past its retention, so that no table grows without bound: finished jobs, closed batches, events, and what the steps of
 * other features delete. Each step deletes in bounded batches.
 */
export const make = <R>(
  others: Effect.Effect<ReadonlyArray<Step>, never, R>
): Effect.Effect<LeaderLoop, never, Queue | Batches | Events | Leadership | ClusterConfig | R> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const batches = yield* Batches
    const leadership = yield* Leadership
    const events = yield* Events
    const { cleanupInterval, doneRetention, eventRetention, janitorInterval } = yield* ClusterConfig
    const closedBatches = Effect.map(batches.purge(doneRetention), (purged) => ({ purged }))
    const oldEvents = Effect.map(events.purge(eventRetention), (purged) => ({ purged }))
    const steps = yield* others
    return (term) => {
      const jobs = Effect.map(queue.purge(doneRetention, leadership.assertTerm(term)), (purged) => ({ ...purged }))
      return {
        name: "cleanup",
        about: "deleting data past its retention",
        schedule: Schedule.spaced(Duration.min(cleanupInterval, janitorInterval)),
        runAtStart: true,
        steps: [
          { name: "jobs", run: jobs },
          { name: "batches", run: closedBatches },
          { name: "events", run: oldEvents },
          ...steps
        ].map((step) => ({
          ...step,
          timeout
        }))
      }
    }
  })
