/** Time that may be spent on reading through jobs: some in one go, and then as fast as it comes back. All in milliseconds. */
export interface ScanBudget {
  /** How long whoever wants to begin now has to wait. */
  readonly wait: (now: number) => number
  /** Somebody took so long, until now. It may be more than there was: then the next wait is longer. */
  readonly spend: (took: number, now: number) => void
}

/** `refill` is how much comes back in a millisecond. */
export const make = ({ most, refill }: { readonly most: number; readonly refill: number }): ScanBudget => {
  let left = most
  let counted: number | undefined
  const remaining = (now: number) => {
    left = Math.min(most, left + Math.max(0, now - (counted ?? now)) * refill)
    counted = now
    return left
  }
  return {
    wait: (now) => {
      const missing = 1 - remaining(now)
      return missing > 0 ? Math.ceil(missing / refill) : 0
    },
    spend: (took, now) => {
      left = remaining(now) - took
    }
  }
}
