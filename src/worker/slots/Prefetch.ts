import type { ClaimedJob } from "../../queue/Queue.js"
import type { LocalQueue } from "./LocalQueue.js"

// Decides how many jobs to claim ahead. Slots that finish thousands of jobs per second must not wait for a round trip
// each time, and slots that work for minutes must not hold jobs that other pods could run. The local queue therefore
// holds about as many jobs as the slots took in the last `aheadMillis`.

const aheadMillis = 100
const maxPrefetchedJobs = 1_000

export interface Prefetch {
  /** Number of jobs to claim now; 0 while the local queue is full enough. */
  readonly wanted: (localQueue: LocalQueue) => number
  /** Reports that a slot took a job. */
  readonly taken: () => void
  /** Reports that all slots are idle and the local queue is empty. */
  readonly starved: (now: number) => void
  /** Reports that a claim has returned these jobs. */
  readonly claimed: (now: number, jobs: ReadonlyArray<ClaimedJob>) => void
}

export const make = (slots: number): Prefetch => {
  let taken = 0
  let since: number | undefined
  let ahead = 0

  /**
   * Follows an increase at once, because bursts are short. Decreases by half at most, so that a brief pause does not
   * reset the measurement.
   */
  const measure = (elapsed: number) => {
    ahead = Math.min(maxPrefetchedJobs, Math.max(Math.floor((taken / elapsed) * aheadMillis), Math.floor(ahead / 2)))
    taken = 0
  }

  return {
    wanted: (localQueue) => {
      const short = Math.min(slots, localQueue.idleSlots) + ahead - localQueue.size
      // Claim only when half-empty or when a slot is idle, because many small claims cost more than a few large ones.
      return localQueue.size <= ahead / 2 || localQueue.size < localQueue.idleSlots
        ? Math.max(0, Math.min(short, maxPrefetchedJobs))
        : 0
    },
    taken: () => {
      taken += 1
    },
    // Excludes the time until the next claim from the measurement, because the slots only wait.
    starved: (now) => {
      if (taken > 0 && since !== undefined) measure(Math.max(1, now - since))
      since = undefined
    },
    claimed: (now) => {
      if (since !== undefined && now > since) measure(now - since)
      if (since === undefined || now > since) since = now
    }
  }
}
