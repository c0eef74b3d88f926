import { Clock, Duration, Effect, type Scope } from "effect"
import type { Loop } from "../../core/Loop.js"
import { makeLatch, until, wakeable } from "../../core/LoopSchedule.js"
import { Queue } from "../../queue/Queue.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { CrewConfig } from "../CrewConfig.js"
import { repeatCounted } from "../LoopRunner.js"
import { Supervisors } from "../worker/Supervisor.js"

// Polling guarantees that jobs are found; notifications only make it faster. One query for all queues of the pod
// returns when the next job of each queue is due, and its supervisor is woken then. Between queries the pod sleeps
// until the earliest of these instants.

/**
 * Minimum interval between queries. A claim that returns fewer jobs than requested triggers a new query, which can
 * happen thousands of times per second.
 */
const minInterval = Duration.millis(100)

export interface DuePoller {
  /** Reports that a queue has no more due jobs. */
  readonly ranShort: () => void
}

/** Wakes supervisors when their jobs become due. Closing the Scope stops it. */
export const start: Effect.Effect<DuePoller, never, Queue | Supervisors | CrewConfig | Metrics | Scope.Scope> =
  Effect.gen(function* () {
    const queue = yield* Queue
    const supervisors = yield* Supervisors
    const { poll } = yield* CrewConfig
    const latch = makeLatch()
    let requested = true
    let untilDue: Duration.Duration = poll

    /** Queues with at least one slot. */
    const open = () => [...supervisors].filter(([, supervisor]) => supervisor.slots().wanted > 0).map(([name]) => name)

    const pollOnce = Effect.gen(function* () {
      requested = false
      latch.close()
      untilDue = poll
      const names = open()
      const due = names.length === 0 ? new Map<string, number>() : yield* queue.nextDue(names)
      const now = yield* Clock.currentTimeMillis
      let sleep = Duration.toMillis(poll)
      for (const [name, runAt] of due) {
        if (runAt <= now) supervisors.get(name)?.wake()
        else sleep = Math.min(sleep, runAt - now)
      }
      untilDue = Duration.millis(sleep)
      return {}
    })

    const pause = (delay: Duration.Duration) =>
      Effect.zipRight(
        latch.openedWithin(delay),
        Effect.suspend(() => (requested ? Effect.sleep(minInterval) : Effect.void))
      )
    const loop: Loop = {
      name: "due poller",
      about: "waking queues when their jobs are due",
      schedule: wakeable(until(Effect.sync(() => untilDue)), pause),
      runAtStart: true,
      steps: [{ name: "poll", run: pollOnce }]
    }
    yield* Effect.forkScoped(repeatCounted(loop))

    return {
      ranShort: () => {
        requested = true
        latch.open()
      }
    }
  })
