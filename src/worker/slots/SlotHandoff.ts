import { Effect, type Scope } from "effect"
import { whenClosed } from "../../core/Registration.js"
import { DirectHandoff } from "../../queue/handoff/DirectHandoff.js"
import { Pod } from "../Pod.js"
import type { Claimer } from "./Claimer.js"
import type { LocalQueue } from "./LocalQueue.js"

/**
 * Accepts jobs that this process enqueues and passes them to idle slots without a claim. Accepts at most as many jobs
 * as there are idle slots, and only while no earlier job is known to be due. Rejects jobs after the Scope closes.
 */
export const open = (options: {
  readonly queue: string
  readonly localQueue: LocalQueue
  readonly claimer: Claimer
  readonly mayTake: (kind: string, version: number) => boolean
}): Effect.Effect<void, never, DirectHandoff | Pod | Scope.Scope> =>
  Effect.gen(function* () {
    const { claimer, mayTake, queue, localQueue } = options
    const pod = yield* Pod
    const directHandoff = yield* DirectHandoff
    let isOpen = true
    yield* directHandoff.join(queue, {
      pod: pod.id,
      reserve: ({ count, kind, version }) => {
        const isFree = isOpen && localQueue.size === 0 && localQueue.idleSlots >= count && claimer.isCaughtUp()
        if (!isFree || !mayTake(kind, version)) return false
        localQueue.reserve(count)
        return true
      },
      release: (jobs) => {
        localQueue.unreserve(jobs)
        claimer.checkRoom()
      },
      take: (jobs) => {
        localQueue.unreserve(jobs.length)
        if (isOpen) localQueue.put(jobs)
        return isOpen
      }
    })
    yield* whenClosed(() => {
      isOpen = false
    })
  })
