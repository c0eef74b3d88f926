import { Clock, Context, Effect, Either } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import * as Rollback from "../../core/Rollback.js"
import type { DirectHandoff } from "../../queue/handoff/DirectHandoff.js"
import * as JobOffer from "../../queue/handoff/JobOffer.js"
import { JobsMemory } from "../../queue/JobsMemory.js"
import { admitAll, type NewJob, type StampedJob, type StampedJobs } from "../../queue/NewJob.js"
import { enqueued, Queue, submitterOf } from "../../queue/Queue.js"
import type { FaultInjector } from "./FaultInjector.js"

// The queue as one process sees it, with the direct handoff to its own free slots that QueuePg has.

const asNewJob = ({ id }: StampedJob, job: NewJob): NewJob => ({ ...job, id })

/** `queue` is the shared queue behind the process's connection. */
export const make = (
  wire: FaultInjector,
  tables: Context.Context<JobsMemory>,
  queue: typeof Queue.Service,
  ids: IdGenerator,
  directHandoff: typeof DirectHandoff.Service
): typeof Queue.Service => {
  const { insertClaimed } = wire.to(Queue, { insertClaimed: Context.get(tables, JobsMemory).insertClaimed })
  const offered = new WeakMap<StampedJob, NewJob>()
  const storeAgain = (jobs: StampedJobs) =>
    queue.enqueue(jobs.flatMap((job) => ({ ...(offered.get(job) as NewJob), id: job.id })))
  const offer = JobOffer.make({
    ids,
    directHandoff,
    insertClaimed: (jobs, lease, pod) => insertClaimed(jobs, lease, pod),
    onTaken: () => {},
    returnJobs: queue.finalize,
    again: (jobs) => Effect.orDie(storeAgain(jobs))
  })

  const enqueue: typeof Queue.Service.enqueue = (jobs) =>
    Effect.withFiberRuntime((fiber) => {
      const now = Context.get(fiber.currentDefaultServices, Clock.Clock).unsafeCurrentTimeMillis()
      const admitted = admitAll(jobs, { ids, now })
      if (Rollback.isOpenIn(fiber) || Either.isLeft(admitted)) return queue.enqueue(jobs)
      const stamped = admitted.right
      for (const [index, job] of stamped.entries()) offered.set(job, jobs[index] as NewJob)
      return Effect.flatMap(offer(stamped, now), (result) =>
        result === "not stored"
          ? queue.enqueue(jobs.map((job, index) => asNewJob(stamped[index] as StampedJob, job)))
          : Effect.succeed(stamped.map(({ id }) => enqueued(id)))
      )
    })

  return { ...queue, enqueue, submitter: submitterOf(enqueue) }
}
