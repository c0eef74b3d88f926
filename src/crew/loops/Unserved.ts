import { Clock, Effect } from "effect"
import type { StoredPod } from "../../cluster/Pods.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Queue } from "../../queue/Queue.js"

/** Returns the names of queues that have due jobs but no pod among these that serves them. */
export const among = (
  pods: ReadonlyArray<Pick<StoredPod, "queues" | "draining">>
): Effect.Effect<ReadonlyArray<string>, DatabaseError, Queue> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const served = new Set(pods.flatMap(({ draining, queues }) => (draining ? [] : queues)))
    const alone = (yield* queue.pendingQueues).filter((name) => !served.has(name))
    if (alone.length === 0) return []
    const due = yield* queue.nextDue(alone)
    const now = yield* Clock.currentTimeMillis
    return alone.filter((name) => (due.get(name) ?? Number.POSITIVE_INFINITY) <= now)
  })
