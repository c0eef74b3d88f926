import { Effect } from "effect"
import type { IdGenerator, Lease, PodId } from "../../core/Ids.js"
import { type DatabaseError, DatabaseUnavailable, retryAfter } from "../../database/DatabaseError.js"
import { type AttemptEnd, End } from "../AttemptEnd.js"
import type { StoreError } from "../JobErrors.js"
import { hasExtras, isUniform, type StampedJobs } from "../NewJob.js"
import type { ClaimedJob } from "../Queue.js"
import type { DirectHandoff, HandoffReceiver } from "./DirectHandoff.js"

// A due job for which a slot is free is stored as claimed: one statement and one commit from enqueue to handler, and no
// notification to other pods. Any other job is stored as pending.

/** Result of an offer: no slot was free, the jobs were stored as pending, or a worker has them. */
export type HandoffResult = "not stored" | "pending" | "taken"

/** Larger groups are served as fast by a claim, which several pods can share. */
const maxOfferedJobs = 16

const unstarted = ({ id, lease, queue, runAt }: ClaimedJob): AttemptEnd => ({
  id,
  lease,
  queue,
  end: End.Again({ runAt, counted: false, error: undefined, remember: undefined })
})

export interface JobOfferOptions {
  readonly ids: IdGenerator
  readonly directHandoff: typeof DirectHandoff.Service
  /** Stores jobs of one kind as claimed by the pod, or as pending if the queue is not open. Returns whether they are claimed. */
  readonly insertClaimed: (
    jobs: StampedJobs,
    lease: Lease,
    pod: PodId,
    now: number
  ) => Effect.Effect<boolean, StoreError>
  /** Called with a new lease and its jobs before a worker gets them. */
  readonly onTaken: (lease: Lease, jobs: StampedJobs) => void
  /** Returns unstarted attempts to the queue. */
  readonly returnJobs: (ends: ReadonlyArray<AttemptEnd>) => Effect.Effect<unknown, DatabaseError>
  /** Stores, as pending, jobs that may already exist. */
  readonly again: (jobs: StampedJobs, now: number) => Effect.Effect<unknown, StoreError>
}

/** Stores jobs for free workers of this process. The same for PostgreSQL and for the tables in memory. */
export const make = ({ again, directHandoff, returnJobs, ids, insertClaimed, onTaken }: JobOfferOptions) => {
  const claimedOf = (jobs: StampedJobs, lease: ClaimedJob["lease"], now: number): ReadonlyArray<ClaimedJob> =>
    jobs.map(({ id, kind, attempts, payload, queue, runAt, version }) => ({
      id,
      lease,
      queue,
      kind,
      version,
      // Parsed from the stored text, so that the handler sees the same value as after a claim.
      payload: JSON.parse(payload) as unknown,
      key: undefined,
      attempt: 1,
      attempts,
      crashCount: 0,
      meta: undefined,
      createdAt: now,
      runAt,
      startedAt: now
    }))

  const storeFor = (
    receiver: HandoffReceiver,
    jobs: StampedJobs,
    now: number
  ): Effect.Effect<HandoffResult, StoreError> => {
    const lease = ids.lease(now)
    // Attempts that cannot be returned either are recovered later by the reaper.
    const returnAll = (claimed: ReadonlyArray<ClaimedJob>) => Effect.ignore(returnJobs(claimed.map(unstarted)))
    const handOver = () => {
      const claimed = claimedOf(jobs, lease, now)
      onTaken(lease, jobs)
      return receiver.take(claimed) ? Effect.void : returnAll(claimed)
    }
    return insertClaimed(jobs, lease, receiver.pod, now).pipe(
      Effect.matchEffect({
        onSuccess: (isClaimed): Effect.Effect<HandoffResult> => {
          if (isClaimed) return Effect.as(handOver(), "taken")
          receiver.release(jobs.length)
          return Effect.succeed("pending")
        },
        onFailure: (error): Effect.Effect<HandoffResult, StoreError> => {
          receiver.release(jobs.length)
          if (!(error instanceof DatabaseUnavailable)) return Effect.fail(error)
          // If only the reply was lost, the jobs are stored as claimed, with no worker. Storing them again waits for
          // that insert to commit or roll back; then they are returned to the queue.
          return retryAfter(error, again(jobs, now)).pipe(
            Effect.zipRight(returnAll(claimedOf(jobs, lease, now))),
            Effect.as("pending")
          )
        }
      })
    )
  }

  return (jobs: StampedJobs, now: number): Effect.Effect<HandoffResult, StoreError> => {
    const [first] = jobs
    if (first === undefined || jobs.length > maxOfferedJobs || !isUniform(jobs)) return Effect.succeed("not stored")
    if (jobs.some((job) => job.runAt > now || hasExtras(job))) return Effect.succeed("not stored")
    const { kind, queue, version } = first
    const receiver = directHandoff.reserve(queue, { kind, version, count: jobs.length })
    return receiver === undefined ? Effect.succeed("not stored") : storeFor(receiver, jobs, now)
  }
}
