import type { JobId, Lease } from "../../core/Ids.js"
import type { HeldJob } from "../Queue.js"

// A lease row is deleted after its last job has ended. This process claimed those jobs, so it knows when that is. If it
// cannot be sure (an end inside a caller's transaction, a lost attempt, a lost reply), it forgets the lease, and the
// reaper deletes the row when it finds no job under it.

/** The size of a batch of ends: each end finishes at most one lease, so finished leases do not accumulate. */
const maxFinishedLeases = 500

interface Held {
  readonly left: Set<JobId>
  /** One job of each statement that ended jobs of this lease. */
  readonly witnesses: Array<JobId>
}

/** Leases whose jobs have all ended, and their witnesses. */
export interface EndedLeases {
  readonly leases: ReadonlyArray<Lease>
  readonly witnesses: ReadonlyArray<JobId>
}

/** Jobs that this process has claimed and not ended, by lease. */
export class HeldLeases {
  private readonly open = new Map<Lease, Held>()
  private readonly over: Array<readonly [Lease, ReadonlyArray<JobId>]> = []

  took(lease: Lease, jobs: ReadonlyArray<JobId>): void {
    if (jobs.length > 0) this.open.set(lease, { left: new Set(jobs), witnesses: [] })
  }

  /**
   * The ends of these attempts are committed, all by one statement. A failover can undo that statement only as a whole,
   * so one of its jobs shows whether the others ended.
   */
  ended(runs: ReadonlyArray<HeldJob>): void {
    let last: Lease | undefined
    for (const { id, lease } of runs) {
      const held = this.open.get(lease)
      if (held === undefined) continue
      // Ends of a lease that are not next to each other name more witnesses than needed.
      if (lease !== last) held.witnesses.push(id)
      last = lease
      held.left.delete(id)
      if (held.left.size > 0) continue
      this.open.delete(lease)
      this.over.push([lease, held.witnesses])
    }
  }

  /** The outcome of these attempts is unknown here. */
  forget(runs: ReadonlyArray<HeldJob>): void {
    for (const { lease } of runs) this.open.delete(lease)
  }

  /** Returns finished leases, at most as many as one statement should delete. Each is returned once. */
  takeOver(): EndedLeases {
    const taken = this.over.splice(0, maxFinishedLeases)
    return { leases: taken.map(([lease]) => lease), witnesses: taken.flatMap(([, witnesses]) => witnesses) }
  }
}
