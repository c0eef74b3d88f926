import { Clock, Duration, Effect, type Scope } from "effect"
import { podsTopic } from "../../cluster/Pods.js"
import { steadyNow } from "../../core/ChangeWatch.js"
import type { Loop } from "../../core/Loop.js"
import { makeLatch, until } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { Queue } from "../../queue/Queue.js"
import { runLoop } from "../../telemetry/LoopRunner.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { Finalizer } from "../slots/Finalizer.js"
import { Supervisors } from "../slots/Supervisor.js"
import { WorkerConfig } from "../WorkerConfig.js"
import { PodHeartbeat } from "./PodHeartbeat.js"

// Polling guarantees that jobs are found; notifications only make it faster. A query returns when the next job of each
// queue is due, and its supervisor is woken then. All queues of the pod are queried at the poll interval. In between, only
// those whose last claim took all due jobs are, so that a pod with many queues does not query all of them for every job.
// New jobs are notified, and jobs that a pod returns to their queue are not. So while no pod has jobs, only a lost notification
// makes a query necessary, and the poll interval is longer. A pod that ends, which may have left jobs, sends a hint.

/**
 * Minimum interval between queries. A claim that returns fewer jobs than requested triggers a new query, which can
 * happen thousands of times per second.
 */
const minInterval = Duration.millis(100)

/** How much longer the poll interval is while no pod has jobs. */
const quietFactor = 5

export interface DuePoller {
  /** Reports that the pod has received jobs. */
  readonly received: () => void
  /** Reports that a queue has no more due jobs. */
  readonly ranShort: (queue: string) => void
}

/** What is woken when jobs of a queue are due. */
export interface Polled {
  readonly wake: () => void
  /** The queue is polled while it wants slots. */
  readonly slots: () => { readonly wanted: number }
}

/** A poller whose queues may come and go. */
interface Poller extends DuePoller {
  /** Queries all queues again at once. */
  readonly again: () => void
}

/**
 * Wakes queues when their jobs become due. `isQuietNow` says that no job can be released without a notification, so that polls may be
 * rarer. Closing the Scope stops it.
 */
export const startFor = (
  supervisors: ReadonlyMap<string, Polled>,
  loopName: string,
  isQuietNow: Effect.Effect<boolean> = Effect.succeed(false)
): Effect.Effect<Poller, never, Queue | WorkerConfig | Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const { poll } = yield* WorkerConfig
    const latch = makeLatch()
    /** Queues that ran short since the last query. */
    const short = new Set<string>()
    /** When the next job of a queue is due, for queues whose supervisor has not been woken for it. */
    const due = new Map<string, number>()
    /** Whether this pod has received jobs since all queues were queried. Their results may not have been written yet. */
    let hasReceived = true
    /** When all queues were queried, and whether the poll interval is longer since then. */
    let fullAt = Number.NEGATIVE_INFINITY
    let isQuiet = false
    const nextFull = () => fullAt + Duration.toMillis(poll) * (isQuiet ? quietFactor : 1)
    let untilNext: Duration.Duration = poll

    const hasSlots = (name: string) => (supervisors.get(name)?.slots().wanted ?? 0) > 0

    const queryAllAgain = () => {
      fullAt = Number.NEGATIVE_INFINITY
      return Effect.void
    }

    const pollOnce = Effect.gen(function* () {
      latch.close()
      untilNext = poll
      const begun = yield* steadyNow
      const isFull = begun >= nextFull()
      if (isFull) {
        // Before the query: a job that ends later may be due again soon.
        isQuiet = !hasReceived && (yield* isQuietNow)
        hasReceived = false
        fullAt = begun
      }
      const names = [...(isFull ? supervisors.keys() : short)].filter(hasSlots)
      short.clear()
      const found =
        names.length === 0 ? new Map<string, number>() : yield* Effect.tapError(queue.nextDue(names), queryAllAgain)
      if (isFull) due.clear()
      for (const name of names) due.delete(name)
      for (const [name, runAt] of found) due.set(name, runAt)
      const now = yield* Clock.currentTimeMillis
      let sleep = nextFull() - (yield* steadyNow)
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

    const received = () => {
      hasReceived = true
      if (!isQuiet) return
      isQuiet = false
      latch.open()
    }

    return {
      received,
      again: () => {
        queryAllAgain()
        latch.open()
      },
      ranShort: (name) => {
        short.add(name)
        latch.open()
      }
    }
  })

type Needs = Queue | Supervisors | Finalizer | PodHeartbeat | Hints | WorkerConfig | Metrics

/** Wakes supervisors when their jobs become due. Closing the Scope stops it. */
export const start: Effect.Effect<DuePoller, never, Needs | Scope.Scope> = Effect.gen(function* () {
  const finalizer = yield* Finalizer
  const podHeartbeat = yield* PodHeartbeat
  const hints = yield* Hints
  const isQuiet = Effect.map(podHeartbeat.isQuiet, (quiet) => quiet && finalizer.held().length === 0)
  const poller = yield* startFor(yield* Supervisors, "due poller", isQuiet)
  yield* podHeartbeat.onOthersRunJobs(poller.received)
  yield* hints.subscribe(podsTopic, poller.again)
  return poller
})
