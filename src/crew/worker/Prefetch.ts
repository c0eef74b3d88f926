import type { LocalQueue } from "./LocalQueue.js"

// How many jobs to claim ahead. Slots that finish thousands of jobs a second must not wait for a round trip each time; slots
// that work for minutes must not keep jobs from other pods. So the localQueue holds what the slots took in the last moments.

/** The localQueue is filled for about this long. */
const aheadMillis = 100
const mostAhead = 2_000

export interface Prefetch {
  /** How many to claim now; 0 while the localQueue is full enough. */
  readonly wanted: (localQueue: LocalQueue) => number
  /** A slot took a job. */
  readonly taken: () => void
  /** Every slot has ended what it took, and found the localQueue empty. */
  readonly starved: (now: number) => void
  /** A claim has come back. */
  readonly claimed: (now: number) => void
}

export const make = (slots: number): Prefetch => {
  let taken = 0
  let since: number | undefined
  let ahead = 0

  /** Up at once, because a burst is short; down by halves, because a pause is shorter still. */
  const measure = (elapsed: number) => {
    ahead = Math.min(mostAhead, Math.max(Math.floor((taken / elapsed) * aheadMillis), Math.floor(ahead / 2)))
    taken = 0
  }

  return {
    wanted: (localQueue) => {
      const short = Math.min(slots, localQueue.idleSlots) + ahead - localQueue.size
      // Half-empty, or a slot has nothing to do: many small claims cost more than a few large ones.
      return localQueue.size <= ahead / 2 || localQueue.size < localQueue.idleSlots
        ? Math.max(0, Math.min(short, mostAhead))
        : 0
    },
    taken: () => {
      taken += 1
    },
    // From here to the next claim they wait, which says nothing about how fast they are.
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
