import { Effect } from "effect"
import { Queue } from "../queue/Queue.js"

/** A queue that a pod can be cut off from: after that nothing it says arrives, and nothing comes back. */
export const make = (
  queue: typeof Queue.Service
): { readonly queue: typeof Queue.Service; readonly sever: () => void } => {
  let severed = false
  const unless = <A, E>(silence: A, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => (severed ? Effect.succeed(silence) : effect))
  return {
    sever: () => {
      severed = true
    },
    queue: Queue.of({
      enqueue: (jobs) => Effect.suspend(() => (severed ? Effect.never : queue.enqueue(jobs))),
      claim: (request) => unless([], queue.claim(request)),
      finalize: (ends) => unless([], queue.finalize(ends)),
      heartbeat: (held) => unless({ lost: [], cancelRequested: [] }, queue.heartbeat(held)),
      progress: (job, progress) => unless(true, queue.progress(job, progress)),
      nextDue: (queues) => unless(new Map(), queue.nextDue(queues)),
      recoverStuck: (stuckFor) => unless({ rescued: 0, poisoned: 0, cancelled: 0 }, queue.recoverStuck(stuckFor)),
      purgeDone: (olderThan) => unless(0, queue.purgeDone(olderThan)),
      purge: (usual) => unless({ done: 0, dead: 0 }, queue.purge(usual))
    })
  }
}
