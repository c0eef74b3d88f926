import { Effect, Fiber, Schedule, type Scope } from "effect"
import { type Loop, nothing, repeatLoop } from "../../core/Loop.js"
import { onEvent } from "../../core/LoopSchedule.js"
import { Queue } from "../../queue/Queue.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { Pod } from "../Pod.js"
import type { LocalQueue } from "./LocalQueue.js"
import type { Prefetch } from "./Prefetch.js"

const claimErrors = MetricSpec.counter("claim_errors_total", "Claims that failed.", ["queue"])

/** Fills a queue's localQueue. */
export interface Claimer {
  /** There may be work. */
  readonly wake: () => void
  /** The localQueue may have room. */
  readonly look: () => void
  /** Whether nothing is known to be due that was not claimed. */
  readonly isCaughtUp: () => boolean
  /** Claims no more; one that is under way is waited for. */
  readonly stop: Effect.Effect<void>
}

/** A failing claim is tried again after a second, then more slowly. */
const afterFailure = Schedule.exponential("1 second").pipe(
  Schedule.union(Schedule.spaced("15 seconds")),
  Schedule.jittered
)

/** Claims for a queue whenever there may be work and the localQueue wants some; `onShort` hears that nothing more was due. */
export const start = (options: {
  readonly queue: string
  readonly localQueue: LocalQueue
  readonly prefetch: Prefetch
  readonly onShort: () => void
}): Effect.Effect<Claimer, never, Queue | Pod | Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const { onShort, prefetch, queue: name, localQueue } = options
    const queue = yield* Queue
    const pod = yield* Pod
    const clock = yield* Effect.clock
    const failures = (yield* Metrics).series(claimErrors, { queue: name })
    let woken = true
    let isClaiming = false
    let onDemand: (() => void) | undefined

    const demand = Effect.async<void>((resume) => {
      onDemand = () => {
        if (prefetch.wanted(localQueue) <= 0 || !woken) return
        onDemand = undefined
        resume(Effect.void)
      }
      onDemand()
    })

    // A claim is not cut off half-way: jobs would be taken and nobody would know.
    const claimOnce = Effect.gen(function* () {
      const limit = prefetch.wanted(localQueue)
      if (limit <= 0) return nothing
      woken = false
      isClaiming = true
      const claiming = queue.claim({ queue: name, pod: pod.id, limit })
      const jobs = yield* Effect.ensuring(
        claiming,
        Effect.sync(() => {
          isClaiming = false
        })
      )
      prefetch.claimed(clock.unsafeCurrentTimeMillis())
      localQueue.put(jobs)
      // More may be there when the claim came back full, or when it held a suspect, which comes alone.
      if (jobs.length === limit || jobs.some(({ crashCount }) => crashCount > 0)) woken = true
      else onShort()
      return nothing
    }).pipe(Effect.uninterruptible)

    const loop: Loop = {
      name: `queue "${name}"`,
      about: "claiming whenever there may be work and a slot for it",
      schedule: onEvent(demand, afterFailure),
      runAtStart: false,
      steps: [
        {
          name: "claim",
          run: claimOnce,
          failed: Effect.sync(() => {
            failures.add(1)
            woken = true
          })
        }
      ]
    }
    const fiber = yield* Effect.forkScoped(repeatLoop(loop))
    const look = () => onDemand?.()
    return {
      look,
      isCaughtUp: () => !woken && !isClaiming,
      wake: () => {
        woken = true
        look()
      },
      stop: Fiber.interrupt(fiber)
    }
  })
