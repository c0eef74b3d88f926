/** Something of which some may be spent in one go, and then as fast as it comes back. Instants are milliseconds. */
export interface Budget {
  /** How long to wait until one may be spent. */
  readonly wait: (now: number) => number
  /** It may be more than there is: then the next wait is longer. */
  readonly spend: (amount: number, now: number) => void
}

/** `refill` is how much comes back in a millisecond. */
export const make = ({ most, refill }: { readonly most: number; readonly refill: number }): Budget => {
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
    spend: (amount, now) => {
      left = remaining(now) - amount
    }
  }
}
