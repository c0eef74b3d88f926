import type { JobId, Lease } from "../../core/Ids.js"
import type { HeldJob } from "../Queue.js"

// A lease row is deleted after its last job has ended. This process claimed those jobs, so it knows when that is. If it
// cannot be sure (an end inside a caller's transaction, a lost attempt, a lost reply), it forgets the lease, and the
// reaper deletes the row when it finds no job under it.

/** The size of a batch of ends: each end finishes at most one lease, so finished leases do not accumulate. */
const mostAtOnce = 500

/** Jobs that this process has claimed and not ended, by lease. */
export class HeldLeases {
  private readonly open = new Map<Lease, Set<JobId>>()
  private readonly over: Array<Lease> = []

  took(lease: Lease, jobs: ReadonlyArray<JobId>): void {
    if (jobs.length > 0) this.open.set(lease, new Set(jobs))
  }

  /** The ends of these attempts are committed. */
  ended(runs: ReadonlyArray<HeldJob>): void {
    for (const { id, lease } of runs) {
      const left = this.open.get(lease)
      if (left === undefined) continue
      left.delete(id)
      if (left.size > 0) continue
      this.open.delete(lease)
      this.over.push(lease)
    }
  }

  /** The outcome of these attempts is unknown here. */
  forget(runs: ReadonlyArray<HeldJob>): void {
    for (const { lease } of runs) this.open.delete(lease)
  }

  /** Returns finished leases, at most as many as one statement should delete. Each is returned once. */
  takeOver(): ReadonlyArray<Lease> {
    return this.over.splice(0, mostAtOnce)
  }
}
