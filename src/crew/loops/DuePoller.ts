import { Clock, Duration, Effect, type Scope } from "effect"
import { Queue } from "../../queue/Queue.js"
import { CrewConfig } from "../CrewConfig.js"
import { makeLatch } from "../worker/Latch.js"
import { Supervisors } from "../worker/Supervisors.js"

// Polling is the truth, hints only make it faster. One question for all queues of the pod finds out when the next job of
// each is due; its supervisor is woken then. Between questions the pod sleeps until the earliest of these instants.

/** After a claim that came back short the question is worth asking anew, but not a thousand times a second. */
const calm = Duration.millis(100)

export interface DuePoller {
  /** A queue has run out of due jobs. */
  readonly ranShort: () => void
}

/** Wakes supervisors when their jobs become due, until the Scope closes. */
export const start: Effect.Effect<DuePoller, never, Queue | Supervisors | CrewConfig | Scope.Scope> = Effect.gen(
  function* () {
    const queue = yield* Queue
    const supervisors = yield* Supervisors
    const { poll } = yield* CrewConfig
    const latch = makeLatch()
    let asked = true

    /** Queues that could run a job if they had one. */
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
      Effect.catchAll((error) => Effect.as(Effect.logWarning("looking for due jobs failed, trying again", error), poll))
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
