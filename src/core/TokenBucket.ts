/** A token bucket. Instants are in milliseconds. */
export interface TokenBucket {
  /** Milliseconds until one token is available; 0 when there is one. */
  readonly wait: (now: number) => number
  /** Takes tokens. Taking more than are left makes the balance negative and the next wait longer. */
  readonly spend: (amount: number, now: number) => void
  /** Returns tokens. */
  readonly give: (amount: number) => void
}

/** `refill` is the number of tokens added per millisecond. */
export const make = ({ capacity, refill }: { readonly capacity: number; readonly refill: number }): TokenBucket => {
  let left = capacity
  let counted: number | undefined
  const remaining = (now: number) => {
    left = Math.min(capacity, left + Math.max(0, now - (counted ?? now)) * refill)
    counted = now
    return left
  }
  return {
    wait: (now) => {
      const missing = 1 - remaining(now)
      // A caller that waited exactly this long must not be refused because of a rounding error.
      return Math.max(0, Math.ceil(missing / refill - 1e-6))
    },
    spend: (amount, now) => {
      left = remaining(now) - amount
    },
    give: (amount) => {
      left = Math.min(capacity, left + amount)
    }
  }
}
