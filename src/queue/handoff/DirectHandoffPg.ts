import { Effect } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, DatabaseUnavailable } from "../../database/DatabaseError.js"
import * as ArrayText from "../ArrayText.js"
import { type AttemptEnd, End } from "../AttemptEnd.js"
import type { ClaimSql } from "../claim/ClaimSql.js"
import type { HeldLeases } from "../claim/HeldLeases.js"
import { hasExtras, isUniform, jsonArray, type StampedJobs } from "../enqueue/StampedJob.js"
import type { ClaimedJob } from "../Queue.js"
import type { StoreError } from "../StorePg.js"
import type { DirectHandoff, HandoffReceiver } from "./DirectHandoff.js"

// A job that is due and meets a free hand is stored as taken: one statement and one way to the disk from the door to its
// handler, and nobody else is told. Whatever needs more thought than that is stored as pending, like every other job.

/** What became of jobs that were offered: nobody is free, they are only stored, or somebody has them. */
export type Fate = "not stored" | "pending" | "taken"

/** More at once would be served as fast by a claim, which others can share. */
const mostAtOnce = 16

const unstarted = ({ id, lease, queue, runAt }: ClaimedJob): AttemptEnd => ({
  id,
  lease,
  queue,
  end: End.Again({ runAt, counted: false, error: undefined, remember: undefined })
})

/**
 * Stores jobs for whoever in this process is free for them. `giveBack` writes the ends of runs that nobody begins; `again`
 * stores jobs that may stand already, as pending.
 */
export const make = (
  { direct }: typeof Database.Service,
  statements: Pick<ClaimSql, "insertClaimed">,
  ids: IdGenerator,
  leases: HeldLeases,
  directHandoff: typeof DirectHandoff.Service,
  giveBack: (ends: ReadonlyArray<AttemptEnd>) => Effect.Effect<unknown, DatabaseError>,
  again: (jobs: StampedJobs, now: number) => Effect.Effect<unknown, StoreError>
) => {
  const claimedOf = (jobs: StampedJobs, lease: ClaimedJob["lease"], now: number): ReadonlyArray<ClaimedJob> =>
    jobs.map(({ id, kind, maxAttempts, payload, queue, runAt, version }) => ({
      id,
      lease,
      queue,
      kind,
      version,
      // As it will be read back, and not as it was given.
      payload: JSON.parse(payload) as unknown,
      key: undefined,
      attempt: 1,
      maxAttempts,
      crashCount: 0,
      meta: undefined,
      createdAt: now,
      runAt,
      startedAt: now
    }))

  const storeFor = (receiver: HandoffReceiver, jobs: StampedJobs, now: number): Effect.Effect<Fate, StoreError> => {
    const lease = ids.lease(now)
    const [first] = jobs
    const parameters = [
      first?.queue,
      now,
      ArrayText.ofPlain(jobs.map(({ id }) => id)),
      lease,
      receiver.pod,
      first?.kind,
      first?.version,
      jsonArray(jobs.map(({ payload }) => payload)),
      first?.priority,
      ArrayText.ofPlain(jobs.map(({ runAt }) => runAt)),
      first?.maxAttempts
    ]
    // A run that nobody begins and that cannot be given back either is found by those who look for lost jobs.
    const giveAllBack = (claimed: ReadonlyArray<ClaimedJob>) => Effect.ignore(giveBack(claimed.map(unstarted)))
    const handOver = () => {
      const claimed = claimedOf(jobs, lease, now)
      leases.took(
        lease,
        jobs.map(({ id }) => id)
      )
      return receiver.take(claimed) ? Effect.void : giveAllBack(claimed)
    }
    return direct.rows(statements.insertClaimed, parameters).pipe(
      Effect.matchEffect({
        onSuccess: ([row]): Effect.Effect<Fate> => {
          if (row?.[0] === true) return Effect.as(handOver(), "taken")
          receiver.release(jobs.length)
          return Effect.succeed("pending")
        },
        onFailure: (error): Effect.Effect<Fate, StoreError> => {
          receiver.release(jobs.length)
          if (!(error instanceof DatabaseUnavailable)) return Effect.fail(error)
          // Only the reply may be lost: then they stand as taken, by nobody. Storing them waits until that is settled.
          return again(jobs, now).pipe(Effect.zipRight(giveAllBack(claimedOf(jobs, lease, now))), Effect.as("pending"))
        }
      })
    )
  }

  return (jobs: StampedJobs, now: number): Effect.Effect<Fate, StoreError> => {
    const [first] = jobs
    if (first === undefined || jobs.length > mostAtOnce || !isUniform(jobs)) return Effect.succeed("not stored")
    if (jobs.some((job) => job.runAt > now || hasExtras(job))) return Effect.succeed("not stored")
    const { kind, queue, version } = first
    const receiver = directHandoff.reserve(queue, { kind, version, count: jobs.length })
    return receiver === undefined ? Effect.succeed("not stored") : storeFor(receiver, jobs, now)
  }
}
