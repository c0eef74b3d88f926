import { Duration, Effect, Schedule } from "effect"
import { Pods } from "../../cluster/Pods.js"
import * as DurationText from "../../core/DurationText.js"
import type { Loop } from "../../core/Loop.js"
import type { Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { CrewConfig } from "../CrewConfig.js"
import { PodHeartbeat } from "./PodHeartbeat.js"
import * as Rescue from "./Rescue.js"

/** Takes back jobs of pods that went quiet, and forgets those pods. Every pod does it: nobody need be elected first. */
export const make: Effect.Effect<Loop, never, Queue | Pods | PodHeartbeat | ClusterConfig | CrewConfig> = Effect.gen(
  function* () {
    const pods = yield* Pods
    const podHeartbeat = yield* PodHeartbeat
    const rescue = yield* Rescue.make
    const { reaperInterval, staleAfter } = yield* ClusterConfig
    const { heartbeat } = yield* CrewConfig

    // When the database was away, everybody's signs of life are old. Those who come back with us get the time to give one
    // before anything of theirs is taken.
    const patience = Duration.times(heartbeat, 2)
    const recover = Effect.flatMap(podHeartbeat.steadyFor, (steady) =>
      Duration.lessThan(steady, patience) ? Effect.succeed({}) : rescue(staleAfter)
    )

    return {
      name: "reaper",
      about: `every ${DurationText.format(reaperInterval)}, taking back jobs, and forgetting processes, quiet for ${DurationText.format(staleAfter)}`,
      schedule: Schedule.spaced(reaperInterval),
      runAtStart: false,
      steps: [
        { name: "recover", timeout: "30 seconds", run: recover },
        {
          name: "pods",
          timeout: "30 seconds",
          run: Effect.map(pods.removeDead(staleAfter), (dead) => ({ dead: dead.length }))
        }
      ]
    }
  }
)
