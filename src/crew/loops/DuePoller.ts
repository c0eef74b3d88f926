import { Clock, Duration, Effect, type Scope } from "effect"
import { Queue } from "../../queue/Queue.js"
import { CrewConfig } from "../CrewConfig.js"
import { makeLatch } from "../worker/Latch.js"
import { Supervisors } from "../worker/Supervisors.js"

// Polling guarantees that jobs are found; notifications only make it faster. One query for all queues of the pod
// returns when the next job of each queue is due, and its supervisor is woken then. Between queries the pod sleeps
// until the earliest of these instants.

/**
 * Minimum interval between queries. A claim that returns fewer jobs than requested triggers a new query, which can
 * happen thousands of times per second.
 */
const calm = Duration.millis(100)

export interface DuePoller {
  /** Reports that a queue has no more due jobs. */
  readonly ranShort: () => void
}

/** Wakes supervisors when their jobs become due. Closing the Scope stops it. */
export const start: Effect.Effect<DuePoller, never, Queue | Supervisors | CrewConfig | Scope.Scope> = Effect.gen(
  function* () {
    const queue = yield* Queue
    const supervisors = yield* Supervisors
    const { poll } = yield* CrewConfig
    const latch = makeLatch()
    let asked = true

    /** Queues with at least one slot. */
    const open = () => [...supervisors].filter(([, supervisor]) => supervisor.slots().wanted > 0).map(([name]) => name)

    const look = Effect.gen(function* () {
      asked = false
      const names = open()
      const due = names.length === 0 ? new Map<string, number>() : yield* queue.nextDue(names)
      const now = yield* Clock.currentTimeMillis
      let sleep = Duration.toMillis(poll)
      for (const [name, runAt] of due) {
        if (runAt <= now) supervisors.get(name)?.wake()
        else sleep = Math.min(sleep, runAt - now)
      }
      return Duration.millis(sleep)
    }).pipe(
      Effect.catchAll((error) => Effect.as(Effect.logWarning("polling for due jobs failed, retrying", error), poll))
    )

    const turn = Effect.gen(function* () {
      yield* latch.openedWithin(yield* look)
      if (asked) yield* Effect.sleep(calm)
    })
    yield* Effect.forkScoped(Effect.forever(turn))

    return {
      ranShort: () => {
        asked = true
        latch.open()
      }
    }
  }
)
