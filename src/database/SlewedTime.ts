/** How fast a reading may drift towards the reference: a tenth of elapsed time, so that it always moves forward. */
const slewRate = 0.1

/** Ahead by more than drift explains, the reading moves at half speed: the reference was set back, or is another one. */
const slowRate = 0.5

/** A difference that drift does not explain. Behind by more, the reading steps forward at once. */
const stepMillis = 5_000

/**
 * Milliseconds that follow a reference clock known only by samples, and never run backwards.
 * `local` is any steady source; what matters is the offset that samples of the reference suggest for it.
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

  /** The offset that readings are heading for. */
  get offset(): number {
    return this.target
  }

  /** A sample says that the reference is this far ahead of the local source. */
  aim(offset: number): void {
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
