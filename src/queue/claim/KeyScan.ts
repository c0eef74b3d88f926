import type { Start } from "./ScanPositions.js"

/** Milliseconds until blocked keys are checked again: another process may have ended a job without a notification. */
const blockedFor = 1_000

/**
 * What this process knows about the keys of a queue. If all keys are busy, only keys that this process freed or stored
 * a job for are tried; all keys are tried again after a while, and whenever other processes may have changed something.
 */
export class KeyScan {
  /** The last key served; the next claim starts after it. */
  last = ""
  /** Whether the queue also has jobs without a key. */
  isMixed = false
  /** Position of the scan through a long queue; undefined at the front. */
  walked: Start | undefined

  private walkedAt = Number.NEGATIVE_INFINITY
  private readonly ready = new Set<string>()
  private blockedAt: number | undefined

  /** Whether to scan for jobs without a key: at every claim if there are some, otherwise once in a while. */
  isWalkDue(now: number): boolean {
    return this.isMixed || now - this.walkedAt >= blockedFor
  }

  walk(to: Start | undefined, now: number): void {
    this.walked = to
    this.walkedAt = now
  }

  /** A job of this key may be claimable: one of its jobs ended, or this process stored one. */
  touched(key: string): void {
    this.ready.add(key)
  }

  /** This process stored a job with this key, or without one. */
  stored(key: string | null): void {
    if (key === null) {
      this.isMixed = true
      this.markChanged()
    } else this.touched(key)
  }

  /** Something changed, but it is unknown which key may be ready. */
  markChanged(): void {
    this.blockedAt = undefined
  }

  /** Whether all keys except the ready ones are known to have no claimable job. */
  isBlocked(now: number): boolean {
    return this.blockedAt !== undefined && now - this.blockedAt < blockedFor
  }

  takeReady(most: number): ReadonlyArray<string> {
    const taken = [...this.ready].slice(0, most)
    for (const key of taken) this.ready.delete(key)
    return taken
  }

  looks(): void {
    this.ready.clear()
  }

  /** Every key was tried, and none has another claimable job. */
  markBlocked(now: number): void {
    this.blockedAt = now
  }

  /** When to try all keys again without a notification; undefined if now. */
  blockedUntil(now: number): number | undefined {
    return this.isBlocked(now) && this.blockedAt !== undefined ? this.blockedAt + blockedFor : undefined
  }

  /** Every job due up to this time was seen and could not be claimed. */
  get seenUntil(): number {
    return this.blockedAt ?? 0
  }
}
