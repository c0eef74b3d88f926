import { Effect } from "effect"
import type { MinuteBuckets } from "../measures/MinuteBuckets.js"
import { Queue } from "../queue/Queue.js"

/** What a pod can be cut off from: after that nothing it says arrives, and nothing comes back. */
interface Severable {
  readonly queue: typeof Queue.Service
  readonly buckets: typeof MinuteBuckets.Service
  readonly sever: () => void
}

/** A queue and a place for counts, as long as they are not severed. */
export const make = (queue: typeof Queue.Service, buckets: typeof MinuteBuckets.Service): Severable => {
  let severed = false
  const unless = <A, E>(silence: A, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => (severed ? Effect.succeed(silence) : effect))
  return {
    sever: () => {
      severed = true
    },
    buckets: { ...buckets, record: (...counts) => unless(undefined, buckets.record(...counts)) },
    queue: Queue.of({
      enqueue: (jobs) => Effect.suspend(() => (severed ? Effect.never : queue.enqueue(jobs))),
      claim: (request) => unless([], queue.claim(request)),
      finalize: (ends) => unless([], queue.finalize(ends)),
      heartbeat: (held) => unless({ lost: [], cancelRequested: [] }, queue.heartbeat(held)),
      progress: (job, progress) => unless(true, queue.progress(job, progress)),
      nextDue: (queues) => unless(new Map(), queue.nextDue(queues)),
      recoverStuck: (stuckFor) => unless({ rescued: 0, poisoned: 0, cancelled: 0 }, queue.recoverStuck(stuckFor)),
      purgeDone: (olderThan) => unless(0, queue.purgeDone(olderThan))
    })
  }
}
