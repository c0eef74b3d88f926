import { Clock, Duration, Effect, type Scope } from "effect"
import { steadyNow } from "../../core/ChangeWatch.js"
import type { Loop } from "../../core/Loop.js"
import { makeLatch, until } from "../../core/LoopSchedule.js"
import { Queue } from "../../queue/Queue.js"
import { runLoop } from "../../telemetry/LoopRunner.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { Supervisors } from "../slots/Supervisor.js"
import { WorkerConfig } from "../WorkerConfig.js"

// Polling guarantees that jobs are found; notifications only make it faster. A query returns when the next job of each
// queue is due, and its supervisor is woken then. All queues of the pod are queried at the poll interval. In between, only
// those whose last claim took all due jobs are, so that a pod with many queues does not query all of them for every job.

/**
 * Minimum interval between queries. A claim that returns fewer jobs than requested triggers a new query, which can
 * happen thousands of times per second.
 */
const minInterval = Duration.millis(100)

export interface DuePoller {
  /** Reports that a queue has no more due jobs. */
  readonly ranShort: (queue: string) => void
}

/** Wakes supervisors when their jobs become due. Closing the Scope stops it. */
export const start: Effect.Effect<DuePoller, never, Queue | Supervisors | WorkerConfig | Metrics | Scope.Scope> =
  Effect.flatMap(Supervisors, (supervisors) => startFor(supervisors, "due poller"))

/** What is woken when jobs of a queue are due. */
export interface Polled {
  readonly wake: () => void
  /** The queue is polled while it wants slots. */
  readonly slots: () => { readonly wanted: number }
}

/** The same for queues that may come and go. */
export const startFor = (
  supervisors: ReadonlyMap<string, Polled>,
  loopName: string
): Effect.Effect<DuePoller, never, Queue | WorkerConfig | Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const { poll } = yield* WorkerConfig
    const latch = makeLatch()
    /** Queues that ran short since the last query. */
    const short = new Set<string>()
    /** When the next job of a queue is due, for queues whose supervisor has not been woken for it. */
    const due = new Map<string, number>()
    let nextFull = Number.NEGATIVE_INFINITY
    let untilNext: Duration.Duration = poll

    const hasSlots = (name: string) => (supervisors.get(name)?.slots().wanted ?? 0) > 0

    const pollOnce = Effect.gen(function* () {
      latch.close()
      untilNext = poll
      const begun = yield* steadyNow
      const isFull = begun >= nextFull
      const names = [...(isFull ? supervisors.keys() : short)].filter(hasSlots)
      short.clear()
      const found = names.length === 0 ? new Map<string, number>() : yield* queue.nextDue(names)
      if (isFull) {
        due.clear()
        nextFull = begun + Duration.toMillis(poll)
      }
      for (const name of names) due.delete(name)
      for (const [name, runAt] of found) due.set(name, runAt)
      const now = yield* Clock.currentTimeMillis
      let sleep = nextFull - (yield* steadyNow)
      for (const [name, runAt] of due) {
        if (runAt <= now) {
          due.delete(name)
          supervisors.get(name)?.wake()
        } else sleep = Math.min(sleep, runAt - now)
      }
      untilNext = Duration.millis(Math.max(0, Math.ceil(sleep)))
      return {}
    })

    const pause = (delay: Duration.Duration) =>
      Effect.zipRight(
        latch.openedWithin(delay),
        Effect.suspend(() => (short.size > 0 ? Effect.sleep(minInterval) : Effect.void))
      )
    const loop: Loop = {
      name: loopName,
      about: "waking queues when their jobs are due",
      schedule: until((now) => now + Duration.toMillis(untilNext), pause),
      runAtStart: true,
      steps: [{ name: "poll", run: pollOnce }]
    }
    yield* runLoop(loop)

    return {
      ranShort: (name) => {
        short.add(name)
        latch.open()
      }
    }
  })
