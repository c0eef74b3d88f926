import { Effect, type Scope } from "effect"
import { FreeHands } from "../../queue/FreeHands.js"
import { Pod } from "../Pod.js"
import type { Claimer } from "./Claimer.js"
import type { Shelf } from "./Shelf.js"

/**
 * Lets those who store jobs in this process hand them to a queue's slots, past the claim: as many as slots wait for a job,
 * while none is known to be due that came before. Until the Scope closes; what comes later is refused.
 */
export const open = (options: {
  readonly queue: string
  readonly shelf: Shelf
  readonly claimer: Claimer
  readonly mayTake: (kind: string, version: number) => boolean
}): Effect.Effect<void, never, FreeHands | Pod | Scope.Scope> =>
  Effect.gen(function* () {
    const { claimer, mayTake, queue, shelf } = options
    const pod = yield* Pod
    const freeHands = yield* FreeHands
    let isOpen = true
    yield* freeHands.join(queue, {
      pod: pod.id,
      reserve: ({ count, kind, version }) => {
        const isFree = isOpen && shelf.size === 0 && shelf.idleSlots >= count && claimer.isCaughtUp()
        if (!isFree || !mayTake(kind, version)) return false
        shelf.promise(count)
        return true
      },
      release: (jobs) => {
        shelf.settle(jobs)
        claimer.look()
      },
      take: (jobs) => {
        shelf.settle(jobs.length)
        if (isOpen) shelf.put(jobs)
        return isOpen
      }
    })
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isOpen = false
      })
    )
  })
