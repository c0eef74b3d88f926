import { Effect } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, DatabaseUnavailable } from "../../database/DatabaseError.js"
import { type AttemptEnd, End } from "../AttemptEnd.js"
import type { ClaimSql } from "../claim/ClaimSql.js"
import type { HeldLeases } from "../claim/HeldLeases.js"
import { hasExtras, isUniform, jsonArray, type StampedJobs } from "../enqueue/StampedJob.js"
import type { StoreError } from "../enqueue/StorePg.js"
import type { ClaimedJob } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import type { DirectHandoff, HandoffReceiver } from "./DirectHandoff.js"

// A due job for which a slot is free is stored as claimed: one statement and one commit from enqueue to handler, and no
// notification to other pods. Any other job is stored as pending.

/** Result of an offer: no slot was free, the jobs were stored as pending, or a worker has them. */
export type HandoffResult = "not stored" | "pending" | "taken"

/** Larger groups are served as fast by a claim, which several pods can share. */
const mostAtOnce = 16

const unstarted = ({ id, lease, queue, runAt }: ClaimedJob): AttemptEnd => ({
  id,
  lease,
  queue,
  end: End.Again({ runAt, counted: false, error: undefined, remember: undefined })
})

/**
 * Stores jobs for free workers of this process. `giveBack` returns unstarted attempts to the queue; `again` stores, as
 * pending, jobs that may already exist.
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
      // Parsed from the stored text, so that the handler sees the same value as after a claim.
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

  const storeFor = (
    receiver: HandoffReceiver,
    jobs: StampedJobs,
    now: number
  ): Effect.Effect<HandoffResult, StoreError> => {
    const lease = ids.lease(now)
    const [first] = jobs
    const parameters = [
      first?.queue,
      now,
      SqlArrays.ofPlain(jobs.map(({ id }) => id)),
      lease,
      receiver.pod,
      first?.kind,
      first?.version,
      jsonArray(jobs.map(({ payload }) => payload)),
      first?.priority,
      SqlArrays.ofPlain(jobs.map(({ runAt }) => runAt)),
      first?.maxAttempts
    ]
    // Attempts that cannot be returned either are recovered later by the reaper.
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
        onSuccess: ([row]): Effect.Effect<HandoffResult> => {
          if (row?.[0] === true) return Effect.as(handOver(), "taken")
          receiver.release(jobs.length)
          return Effect.succeed("pending")
        },
        onFailure: (error): Effect.Effect<HandoffResult, StoreError> => {
          receiver.release(jobs.length)
          if (!(error instanceof DatabaseUnavailable)) return Effect.fail(error)
          // If only the reply was lost, the jobs are stored as claimed, with no worker. Storing them again waits for
          // that insert to commit or roll back; then they are returned to the queue.
          return again(jobs, now).pipe(Effect.zipRight(giveAllBack(claimedOf(jobs, lease, now))), Effect.as("pending"))
        }
      })
    )
  }

  return (jobs: StampedJobs, now: number): Effect.Effect<HandoffResult, StoreError> => {
    const [first] = jobs
    if (first === undefined || jobs.length > mostAtOnce || !isUniform(jobs)) return Effect.succeed("not stored")
    if (jobs.some((job) => job.runAt > now || hasExtras(job))) return Effect.succeed("not stored")
    const { kind, queue, version } = first
    const receiver = directHandoff.reserve(queue, { kind, version, count: jobs.length })
    return receiver === undefined ? Effect.succeed("not stored") : storeFor(receiver, jobs, now)
  }
}
