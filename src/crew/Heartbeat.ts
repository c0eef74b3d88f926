import { Effect } from "effect"
import type { Loop } from "../core/Loop.js"
import { Queue } from "../queue/Queue.js"
import { CrewConfig } from "./CrewConfig.js"
import type { Supervisor } from "./Supervisor.js"

/** Shows that this pod still works on its jobs, and stops those that are no longer its own or no longer wanted. */
export const make = (supervisors: ReadonlyMap<string, Supervisor>): Effect.Effect<Loop, never, Queue | CrewConfig> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const config = yield* CrewConfig

    const beat = Effect.gen(function* () {
      const all = [...supervisors.values()]
      const pulse = yield* queue.heartbeat(all.flatMap((supervisor) => supervisor.held()))
      for (const supervisor of all) {
        yield* Effect.forEach(pulse.lost, (held) => supervisor.stop(held, "lost"), { discard: true })
        yield* Effect.forEach(pulse.cancelRequested, (held) => supervisor.stop(held, "cancelled"), { discard: true })
      }
      return { lost: pulse.lost.length, cancelled: pulse.cancelRequested.length }
    })

    return {
      name: "heartbeat",
      about: "for all running jobs at once",
      every: config.heartbeat,
      atStart: false,
      steps: [{ name: "beat", deadline: config.heartbeat, run: beat }]
    }
  })
