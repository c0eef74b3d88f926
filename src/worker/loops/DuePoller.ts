import { Clock, Duration, Effect, type Scope } from "effect"
import { steadyNow } from "../../core/ChangeWatch.js"
import type { Loop } from "../../core/Loop.js"
import { makeLatch, polling } from "../../core/LoopSchedule.js"
import { polled, type Topic, Versions } from "../../core/Versions.js"
import { Queue } from "../../queue/Queue.js"
import { runLoop } from "../../telemetry/LoopRunner.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { Supervisors } from "../slots/Supervisor.js"
import { WorkerConfig } from "../WorkerConfig.js"

// Polling guarantees that jobs are found; notifications only make it faster. A query returns when the next job of each
// queue is due, and its supervisor is woken then. All queues of the pod are queried at the poll interval. In between, only
// those whose last claim took all due jobs are, so that a pod with many queues does not query all of them for every job. No query
// is needed while heartbeats read that nothing has changed since the last one (see Versions).

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
  Effect.flatMap(Supervisors, (supervisors) => startFor(supervisors, "due poller", ["due", "settings"]))

/** What is woken when jobs of a queue are due. */
export interface Polled {
  readonly wake: () => void
  /** The queue is polled while it wants slots. */
  readonly slots: () => { readonly wanted: number }
}

/** The same for queues that may come and go. `topics` have the versions of what the queries return, if heartbeats read them. */
export const startFor = (
  supervisors: ReadonlyMap<string, Polled>,
  loopName: string,
  topics?: ReadonlyArray<Topic>
): Effect.Effect<DuePoller, never, Queue | WorkerConfig | Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const { poll } = yield* WorkerConfig
    const latch = makeLatch()
    const changes = polled(topics === undefined ? Versions.none : yield* Versions, topics ?? [], poll)
    /** Queues that ran short since the last query. */
    const short = new Set<string>()
    /** When the next job of a queue is due, for queues whose supervisor has not been woken for it. */
    const due = new Map<string, number>()
    let nextFull = Number.NEGATIVE_INFINITY
    let untilFull: Duration.Duration = poll

    const hasSlots = (name: string) => (supervisors.get(name)?.slots().wanted ?? 0) > 0

    const pollOnce = Effect.gen(function* () {
      latch.close()
      untilFull = poll
      const begun = yield* steadyNow
      const isFullDue = begun >= nextFull
      const isFull = isFullDue && !changes.isUnchanged()
      const version = isFull ? changes.begin() : undefined
      const names = [...(isFull ? supervisors.keys() : short)].filter(hasSlots)
      short.clear()
      const found = names.length === 0 ? new Map<string, number>() : yield* queue.nextDue(names)
      if (isFullDue) nextFull = begun + Duration.toMillis(poll)
      if (isFull) {
        due.clear()
        changes.passed(version)
      }
      for (const name of names) due.delete(name)
      for (const [name, runAt] of found) due.set(name, runAt)
      const now = yield* Clock.currentTimeMillis
      for (const [name, runAt] of due) {
        if (runAt > now) continue
        due.delete(name)
        supervisors.get(name)?.wake()
      }
      untilFull = Duration.millis(Math.max(0, Math.ceil(nextFull - (yield* steadyNow))))
      return {}
    })

    const openedWithin = (delay: Duration.DurationInput) =>
      Effect.zipLeft(
        latch.openedWithin(delay),
        Effect.suspend(() => (short.size > 0 ? Effect.sleep(minInterval) : Effect.void))
      )
    const loop: Loop = {
      name: loopName,
      about: "waking queues when their jobs are due",
      schedule: polling(() => untilFull, {
        latch: { ...latch, openedWithin },
        polled: changes,
        due: () => Math.min(...due.values())
      }),
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
