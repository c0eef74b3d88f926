import { Duration, Effect, Either, Schedule } from "effect"
import { Pods } from "../../cluster/Pods.js"
import * as DurationText from "../../core/DurationText.js"
import type { Loop, Report, Step } from "../../core/Loop.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { Registry } from "../../handlers/Registry.js"
import { type DeadPayload, Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { CrewConfig } from "../CrewConfig.js"
import { PodHeartbeat } from "./PodHeartbeat.js"

/** Returns running jobs without a heartbeat for this long to the queue. The queue counts them by kind. */
export const makeRescue: Effect.Effect<
  (quietFor: Duration.Duration) => Effect.Effect<Report, DatabaseError>,
  never,
  Queue
> = Effect.map(
  Queue,
  (queue) => (quietFor) => Effect.map(queue.recoverStuck(quietFor), (recovered) => ({ ...recovered }))
)

/** Makes the follow-ups of jobs that died elsewhere and whose kinds this pod has the code of. */
const makeFollowUps = <R>(queue: typeof Queue.Service, registry: Registry<R>): Step["run"] | undefined => {
  const kinds = [...registry].filter(([, { followUp }]) => followUp !== undefined).map(([name]) => name)
  if (kinds.length === 0) return undefined
  const compute = ({ kind, payload, version }: DeadPayload) =>
    registry.get(kind)?.followUp?.(payload, version) ?? Either.left("this pod has no code for it")
  return Effect.gen(function* () {
    const { failed, made } = yield* queue.makeFollowUps(kinds, compute)
    for (const { job, reason } of failed) {
      yield* Effect.logError(`could not make the follow-up of the dead job ${job}; trying again in an hour: ${reason}`)
    }
    return { made, failed: failed.length }
  })
}

/**
 * Returns jobs of dead pods to the queue, makes follow-ups that were left over, and removes those pods. Runs on every pod,
 * so it needs no leader.
 */
export const make = <R>(
  registry: Registry<R>
): Effect.Effect<Loop, never, Queue | Pods | PodHeartbeat | ClusterConfig | CrewConfig> =>
  Effect.gen(function* () {
    const followUps = makeFollowUps(yield* Queue, registry)
    const pods = yield* Pods
    const podHeartbeat = yield* PodHeartbeat
    const rescue = yield* makeRescue
    const { reaperInterval, staleAfter } = yield* ClusterConfig
    const { heartbeat } = yield* CrewConfig

    // After a database outage all heartbeats are old. Wait until the other pods have had time to send one before
    // rescuing their jobs.
    const patience = Duration.times(heartbeat, 2)
    const recover = Effect.flatMap(podHeartbeat.steadyFor, (steady) =>
      Duration.lessThan(steady, patience) ? Effect.succeed({}) : rescue(staleAfter)
    )

    return {
      name: "reaper",
      about: `every ${DurationText.format(reaperInterval)}, rescuing jobs and removing processes without a heartbeat for ${DurationText.format(staleAfter)}`,
      schedule: Schedule.spaced(reaperInterval),
      runAtStart: false,
      steps: [
        { name: "recover", timeout: "30 seconds", run: recover },
        ...(followUps === undefined ? [] : [{ name: "follow-ups", timeout: "30 seconds", run: followUps } as const]),
        {
          name: "pods",
          timeout: "30 seconds",
          run: Effect.map(pods.removeDead(staleAfter), (dead) => ({ dead: dead.length }))
        }
      ]
    }
  })
