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
  /** How many more jobs the process may hold. */
  readonly room: () => number
}): Effect.Effect<void, never, DirectHandoff | Pod | Scope.Scope> =>
  Effect.gen(function* () {
    const { claimer, mayTake, queue, localQueue, room } = options
    const pod = yield* Pod
    const directHandoff = yield* DirectHandoff
    let isOpen = true
    /** Jobs in transit: accepted, and not yet in the local queue. */
    let promised = 0
    const arrived = (jobs: number) => {
      promised -= jobs
      localQueue.unreserve(jobs)
    }
    yield* directHandoff.join(queue, {
      pod: pod.id,
      reserve: ({ count, kind, version }) => {
        const isFree = isOpen && localQueue.size === 0 && localQueue.idleSlots >= count && claimer.isCaughtUp()
        if (!isFree || !mayTake(kind, version) || promised + count > room()) return false
        promised += count
        localQueue.reserve(count)
        return true
      },
      release: (jobs) => {
        arrived(jobs)
        claimer.checkRoom()
      },
      take: (jobs) => {
        arrived(jobs.length)
        if (isOpen) localQueue.put(jobs)
        return isOpen
      }
    })
    yield* whenClosed(() => {
      isOpen = false
    })
  })
