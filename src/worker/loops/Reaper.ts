import { Duration, Effect, Either, Schedule } from "effect"
import { Pods } from "../../cluster/Pods.js"
import * as DurationText from "../../core/DurationText.js"
import type { Loop, Step } from "../../core/Loop.js"
import type { Registry } from "../../handlers/Registry.js"
import { type DeadPayload, Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { WorkerConfig } from "../WorkerConfig.js"
import { PodHeartbeat } from "./PodHeartbeat.js"

/** Makes the follow-ups of jobs that died elsewhere and whose kinds this pod has the code of. */
const makeFollowUps = <R>(queue: typeof Queue.Service, registry: Registry<R>): Step["run"] | undefined => {
  const kinds = [...registry].filter(([, { followUp }]) => followUp !== undefined).map(([name]) => name)
  if (kinds.length === 0) return undefined
  const compute = ({ kind, payload, version }: DeadPayload) =>
    registry.get(kind)?.followUp?.(payload, version) ?? Either.left("this process has no code for it")
  return Effect.gen(function* () {
    const { failed, made } = yield* queue.makeFollowUps(kinds, compute)
    for (const { job, reason } of failed) {
      yield* Effect.logError(`could not make the follow-up of the dead job ${job}; trying again in an hour: ${reason}`)
    }
    return { made, failed: failed.length }
  })
}

/**
 * Returns jobs without a heartbeat to the queue, makes follow-ups that were left over, and removes dead pods. Runs on every
 * pod, so it needs no leader. The steps fail independently.
 */
export const make = <R>(
  registry: Registry<R>
): Effect.Effect<Loop, never, Queue | Pods | PodHeartbeat | ClusterConfig | WorkerConfig> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const followUps = makeFollowUps(queue, registry)
    const pods = yield* Pods
    const podHeartbeat = yield* PodHeartbeat
    const { janitorInterval, reaperInterval, staleAfter, stuckTimeout } = yield* ClusterConfig
    const { heartbeat } = yield* WorkerConfig
    const interval = Duration.min(reaperInterval, janitorInterval)
    const shortest = Duration.min(staleAfter, stuckTimeout)
    const passesPerJanitor = Math.round(Duration.toMillis(janitorInterval) / Duration.toMillis(interval))
    let passes = 0

    // After a database outage all heartbeats are old. Until the other pods have had time to send one, this pod only
    // watches their heartbeats: it rescues nothing and removes no pod.
    const steadyBeforeRescue = Duration.times(heartbeat, 2)
    const whenSteady = (quietFor: Duration.Duration) =>
      Effect.map(podHeartbeat.steadyFor, (steady) =>
        Duration.lessThan(steady, steadyBeforeRescue) ? Duration.infinity : quietFor
      )
    const recover = Effect.suspend(() => {
      const quietFor = passes % passesPerJanitor === 0 ? shortest : staleAfter
      passes += 1
      return Effect.flatMap(whenSteady(quietFor), queue.recoverStuck)
    })

    return {
      name: "reaper",
      about: `every ${DurationText.format(interval)}, rescuing jobs and removing processes without a heartbeat for ${DurationText.format(staleAfter)}`,
      schedule: Schedule.spaced(interval),
      // Heartbeats are watched from the start on. The first pass can rescue nothing yet.
      runAtStart: true,
      steps: [
        { name: "recover", timeout: "30 seconds", run: Effect.map(recover, (recovered) => ({ ...recovered })) },
        ...(followUps === undefined ? [] : [{ name: "follow-ups", timeout: "30 seconds", run: followUps } as const]),
        {
          name: "processes",
          timeout: "30 seconds",
          run: Effect.map(Effect.flatMap(whenSteady(staleAfter), pods.removeDead), (dead) => ({ dead: dead.length }))
        }
      ]
    }
  })
