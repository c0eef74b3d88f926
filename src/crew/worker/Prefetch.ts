import type { Shelf } from "./Shelf.js"

// How many jobs to claim ahead. Slots that finish thousands of jobs a second must not wait for a round trip each time; slots
// that work for minutes must not keep jobs from other pods. So the shelf holds what the slots took in the last moments.

/** The shelf is filled for about this long. */
const aheadMillis = 100
const mostAhead = 2_000

export interface Prefetch {
  /** How many to claim now; 0 while the shelf is full enough. */
  readonly wanted: (shelf: Shelf) => number
  /** A slot took a job. */
  readonly taken: () => void
  /** Every slot has ended what it took, and found the shelf empty. */
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
    wanted: (shelf) => {
      const short = Math.min(slots, shelf.idleSlots) + ahead - shelf.size
      // Half-empty, or a slot has nothing to do: many small claims cost more than a few large ones.
      return shelf.size <= ahead / 2 || shelf.size < shelf.idleSlots ? Math.max(0, Math.min(short, mostAhead)) : 0
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
