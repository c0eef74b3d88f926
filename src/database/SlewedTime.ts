/** Maximum correction per elapsed time. Less than 1, so that the time always moves forward. */
const slewRate = 0.1

/**
 * Correction rate when the time is ahead by more than `stepMillis`: the reference was set back, or is a different
 * clock.
 */
const slowRate = 0.5

/** A difference too large to be drift. If the time is behind by more than this, it steps forward at once. */
const stepMillis = 5_000

/**
 * A time in milliseconds that follows a sampled reference clock and never runs backwards. `local` is any monotonic
 * source; `offset` is how far the reference is ahead of it.
 */
export class SlewedTime {
  private applied: number
  private target: number
  private lastLocal: number
  private lastReading = Number.NEGATIVE_INFINITY

  constructor(
    private readonly local: () => number,
    offset: number
  ) {
    this.applied = offset
    this.target = offset
    this.lastLocal = local()
  }

  /** The offset that the time converges to. */
  get offset(): number {
    return this.target
  }

  /** Sets the offset to converge to, from a new sample. */
  setOffset(offset: number): void {
    this.now()
    this.target = offset
  }

  now(): number {
    const local = this.local()
    const gap = this.target - this.applied
    const reach = Math.max(0, local - this.lastLocal) * (gap < -stepMillis ? slowRate : slewRate)
    this.applied += gap > stepMillis ? gap : Math.min(reach, Math.max(-reach, gap))
    this.lastLocal = local
    this.lastReading = Math.max(this.lastReading, local + this.applied)
    return this.lastReading
  }
}
