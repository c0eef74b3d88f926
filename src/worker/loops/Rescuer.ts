import { Duration, Effect, type Scope } from "effect"
import { Pods, podsTopic } from "../../cluster/Pods.js"
import { steadyNow } from "../../core/ChangeWatch.js"
import * as DurationText from "../../core/DurationText.js"
import type { PodId } from "../../core/Ids.js"
import { type Loop, nothing } from "../../core/Loop.js"
import { makeLatch, onEvent } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { Pod } from "../Pod.js"
import { WorkerConfig } from "../WorkerConfig.js"
import { PodHeartbeat } from "./PodHeartbeat.js"

/**
 * Removes pods that have missed two heartbeats and whose lock is free, and returns their jobs to the queue at once. Runs
 * on every pod, after each heartbeat that found a silent pod. The reaper handles all other cases: jobs of pods that are silent
 * and hold their lock, or that never had one.
 */
export const make: Effect.Effect<
  Loop,
  never,
  Queue | Pods | Pod | PodHeartbeat | Hints | ClusterConfig | WorkerConfig | Scope.Scope
> = Effect.gen(function* () {
  const queue = yield* Queue
  const pods = yield* Pods
  const pod = yield* Pod
  const own = yield* PodHeartbeat
  const hints = yield* Hints
  const { lease, podHeartbeat, staleAfter } = yield* ClusterConfig
  const { heartbeat } = yield* WorkerConfig
  const latch = makeLatch()
  yield* own.onSilence(latch.open)

  // If the locks of all pods are lost at once, so is the lock of this one. The other pods then have this long to connect
  // again, and until it has passed, the reaper decides.
  const undisturbedBeforeRescue = Duration.max(lease, Duration.times(heartbeat, 2))
  /** Removed pods whose jobs are still to be rescued, and when they were removed, on the monotonic clock. */
  const orphaning = new Map<PodId, number>()

  const remove = Effect.gen(function* () {
    if (Duration.lessThan(yield* own.undisturbedFor, undisturbedBeforeRescue)) return nothing
    const removed = yield* pods.removeUnlocked(pod.id)
    const now = yield* steadyNow
    for (const { id } of removed) orphaning.set(id, now)
    for (const { id, silentFor } of removed) {
      yield* Effect.logWarning(
        `process ${id} is dead: its database session has ended and it has sent no heartbeat for ${Duration.toSeconds(silentFor).toFixed(1)}s. Rescuing its jobs now instead of after ${DurationText.format(staleAfter)} (QUEUE_STALE_AFTER).`
      )
      // The leader assigns its slots to other pods. They may need them to run its jobs.
      yield* hints.publish(podsTopic, id)
    }
    return nothing
  })

  const recover = Effect.gen(function* () {
    const now = yield* steadyNow
    // The reaper has already rescued their jobs.
    for (const [id, since] of orphaning) if (now - since > Duration.toMillis(staleAfter)) orphaning.delete(id)
    const ended = [...orphaning.keys()]
    if (ended.length === 0) return nothing
    const { left, ...recovered } = yield* queue.recoverOrphaned(ended)
    for (const id of ended) if (!left.includes(id)) orphaning.delete(id)
    return recovered
  })

  // After a failure the next pass follows a second later, even if no other pod is silent. Jobs that were locked, by a session of
  // the dead process that the server has not ended yet, are tried again after a heartbeat.
  const failed = Effect.sync(latch.open)
  const wanted = Effect.suspend(() => (orphaning.size === 0 ? latch.opened : latch.openedWithin(podHeartbeat)))

  return {
    name: "rescuer",
    about: "rescuing the jobs of processes that have missed two heartbeats and whose lock is free",
    schedule: onEvent(wanted),
    runAtStart: false,
    steps: [
      { name: "processes", timeout: "30 seconds", run: remove, failed },
      { name: "recover", timeout: "30 seconds", run: recover, failed }
    ]
  }
})
