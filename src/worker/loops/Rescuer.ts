import { Duration, Effect, type Scope } from "effect"
import { Pods } from "../../cluster/Pods.js"
import * as DurationText from "../../core/DurationText.js"
import type { PodId } from "../../core/Ids.js"
import { type Loop, nothing } from "../../core/Loop.js"
import { makeLatch, onEvent } from "../../core/LoopSchedule.js"
import { Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { Pod } from "../Pod.js"
import { WorkerConfig } from "../WorkerConfig.js"
import { PodHeartbeat } from "./PodHeartbeat.js"

/**
 * Removes pods that have missed two heartbeats and whose lock is free, and returns their jobs to the queue at once. Runs
 * on every pod, after each heartbeat that found a silent pod. The reaper rescues what this loop may not: jobs of pods that
 * are silent and hold their lock, or that never had one.
 */
export const make: Effect.Effect<
  Loop,
  never,
  Queue | Pods | Pod | PodHeartbeat | ClusterConfig | WorkerConfig | Scope.Scope
> = Effect.gen(function* () {
  const queue = yield* Queue
  const pods = yield* Pods
  const pod = yield* Pod
  const podHeartbeat = yield* PodHeartbeat
  const { lease, staleAfter } = yield* ClusterConfig
  const { heartbeat } = yield* WorkerConfig
  const latch = makeLatch()
  yield* podHeartbeat.onSilence(latch.open)

  // If the locks of all pods are lost at once, so is the lock of this one. The other pods then have this long to connect
  // again, and until it has passed, the reaper decides.
  const undisturbedBeforeRescue = Duration.max(lease, Duration.times(heartbeat, 2))
  /** Removed pods whose jobs are still to be rescued. */
  const orphaning = new Set<PodId>()

  const remove = Effect.gen(function* () {
    if (Duration.lessThan(yield* podHeartbeat.undisturbedFor, undisturbedBeforeRescue)) return nothing
    for (const { id, silentFor } of yield* pods.removeUnlocked(pod.id)) {
      orphaning.add(id)
      yield* Effect.logWarning(
        `process ${id} is dead: its database session has ended and it has sent no heartbeat for ${Duration.toSeconds(silentFor).toFixed(1)}s. Rescuing its jobs now instead of after ${DurationText.format(staleAfter)} (QUEUE_STALE_AFTER).`
      )
    }
    return nothing
  })

  const recover = Effect.suspend(() => {
    const ended = [...orphaning]
    if (ended.length === 0) return Effect.succeed(nothing)
    return Effect.map(queue.recoverOrphaned(ended), (recovered) => {
      for (const id of ended) orphaning.delete(id)
      return { ...recovered }
    })
  })

  // After a failure the next pass follows a second later, even if no other pod is silent.
  const failed = Effect.sync(latch.open)

  return {
    name: "rescuer",
    about: "rescuing the jobs of processes that have missed two heartbeats and whose lock is free",
    schedule: onEvent(latch.opened),
    runAtStart: false,
    steps: [
      { name: "processes", timeout: "30 seconds", run: remove, failed },
      { name: "recover", timeout: "30 seconds", run: recover, failed }
    ]
  }
})
