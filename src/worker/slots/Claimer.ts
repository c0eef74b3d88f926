import { Effect, Fiber, Schedule, type Scope } from "effect"
import { type Loop, nothing, repeatLoop } from "../../core/Loop.js"
import { onEvent } from "../../core/LoopSchedule.js"
import { type ClaimedJob, Queue } from "../../queue/Queue.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { Pod } from "../Pod.js"
import type { LocalQueue } from "./LocalQueue.js"
import type { Prefetch } from "./Prefetch.js"

const claimErrors = MetricSpec.counter("claim_errors_total", "Claims that failed.", ["queue"])

/** Claims jobs and adds them to the local queue. */
export interface Claimer {
  /** Signals that there may be due jobs. */
  readonly wake: () => void
  /** Signals that the local queue may have room. */
  readonly checkRoom: () => void
  /** Whether no unclaimed job is known to be due. */
  readonly isCaughtUp: () => boolean
  /** Stops claiming and waits for a claim in progress. */
  readonly stop: Effect.Effect<void>
}

const afterFailure = Schedule.exponential("1 second").pipe(
  Schedule.union(Schedule.spaced("15 seconds")),
  Schedule.jittered
)

/**
 * Claims from a queue whenever there may be due jobs and the local queue has room. `onShort` is called when no more
 * jobs were due.
 */
export const start = (options: {
  readonly queue: string
  readonly localQueue: LocalQueue
  readonly prefetch: Prefetch
  readonly onShort: () => void
  /** Releases of this process to which executions may be pinned that pods with other releases have claimed. */
  readonly pinned?: ((now: number) => ReadonlyArray<string> | undefined) | undefined
}): Effect.Effect<Claimer, never, Queue | Pod | Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const { onShort, pinned, prefetch, queue: name, localQueue } = options
    const queue = yield* Queue
    const pod = yield* Pod
    const clock = yield* Effect.clock
    const failures = (yield* Metrics).series(claimErrors, { queue: name })
    let woken = true
    let isClaiming = false
    let hasFailed = false
    let onDemand: (() => void) | undefined

    const demand = Effect.async<void>((resume) => {
      onDemand = () => {
        if (prefetch.wanted(localQueue) <= 0 || !woken) return
        onDemand = undefined
        resume(Effect.void)
      }
      onDemand()
    })

    const received = (jobs: ReadonlyArray<ClaimedJob>, limit: number) => {
      prefetch.claimed(clock.unsafeCurrentTimeMillis(), jobs)
      localQueue.put(jobs)
      // Claim again if the claim was full, or if it returned a job that crashed a pod before, because such a job is
      // claimed alone.
      if (jobs.length === limit || jobs.some(({ crashCount }) => crashCount > 0)) woken = true
      else onShort()
    }

    // Uninterruptible: an interrupted claim could leave jobs claimed that no slot knows about.
    const claimOnce = Effect.suspend(() => {
      const limit = prefetch.wanted(localQueue)
      if (limit <= 0) return Effect.void
      woken = false
      isClaiming = true
      const releases = pinned?.(clock.unsafeCurrentTimeMillis())
      return Effect.matchCauseEffect(queue.claim({ queue: name, pod: pod.id, limit, releases }), {
        onFailure: (cause) => {
          isClaiming = false
          return Effect.failCause(cause)
        },
        onSuccess: (jobs) => {
          isClaiming = false
          received(jobs, limit)
          return Effect.void
        }
      })
    }).pipe(Effect.uninterruptible)

    // A pass continues to claim, because going through the schedule before each claim would delay every job of an idle
    // pod. The pass after a failure ends with its first claim, whose success resets the delays of the schedule.
    const claims = Effect.suspend(() => {
      const isRecovering = hasFailed
      hasFailed = false
      const more = Effect.whileLoop({
        while: () => true,
        body: () => Effect.zipRight(demand, claimOnce),
        step: () => {}
      })
      return isRecovering ? claimOnce : Effect.zipRight(claimOnce, more)
    })

    const loop: Loop = {
      name: `queue "${name}"`,
      about: "claiming jobs when some may be due and slots are free",
      schedule: onEvent(demand, afterFailure),
      runAtStart: false,
      steps: [
        {
          name: "claim",
          run: Effect.as(claims, nothing),
          failed: Effect.sync(() => {
            failures.add(1)
            hasFailed = true
            woken = true
          })
        }
      ]
    }
    const fiber = yield* Effect.forkScoped(repeatLoop(loop))
    const checkRoom = () => onDemand?.()
    return {
      checkRoom,
      isCaughtUp: () => !woken && !isClaiming,
      wake: () => {
        woken = true
        checkRoom()
      },
      stop: Fiber.interrupt(fiber)
    }
  })
