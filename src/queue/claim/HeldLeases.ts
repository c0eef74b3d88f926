import type { JobId, Lease } from "../../core/Ids.js"
import type { HeldJob } from "../Queue.js"

// A lease's row is deleted after the end of its last job, and this process knows when that is: it took them. Where it cannot be
// sure (an end inside of somebody's transaction, a run that was lost, a reply that never came) it forgets the lease instead,
// and the row goes when somebody looks for lost jobs and finds none under it.

/** As many as ends are written at a time: each of those ends at most one lease, so that none are left to gather. */
const mostAtOnce = 500

/** What this process took and has not ended yet, by lease. */
export class HeldLeases {
  private readonly open = new Map<Lease, Set<JobId>>()
  private readonly over: Array<Lease> = []

  took(lease: Lease, jobs: ReadonlyArray<JobId>): void {
    if (jobs.length > 0) this.open.set(lease, new Set(jobs))
  }

  /** The ends of these runs are written for good. */
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

  /** What became of these runs is not known here. */
  forget(runs: ReadonlyArray<HeldJob>): void {
    for (const { lease } of runs) this.open.delete(lease)
  }

  /** Leases that are over, at most as many as one statement should delete; each is handed out once. */
  takeOver(): ReadonlyArray<Lease> {
    return this.over.splice(0, mostAtOnce)
  }
}
