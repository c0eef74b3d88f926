import type { Start } from "./ClaimCursor.js"

/** What may have changed without a word is looked at again after this: another process may have ended a job. */
const blockedFor = 1_000

/**
 * What a claim of a queue with keys knows of them. Where all keys are busy, only those are looked at again that this process
 * made free or gave a job to; a look at all of them follows after a while, and whenever others may have done something.
 */
export class KeyScan {
  /** The last key served: the next claim begins behind it. */
  last = ""
  /** Whether jobs without a key stand among the others. */
  isMixed = false
  /** How far a walk through a line too long for one look has come; none at its front. */
  walked: Start | undefined

  private walkedAt = Number.NEGATIVE_INFINITY
  private readonly ready = new Set<string>()
  private blockedAt: number | undefined

  /** Whether to look for jobs without a key: at each look where there are some, and now and then where none was seen. */
  isWalkDue(now: number): boolean {
    return this.isMixed || now - this.walkedAt >= blockedFor
  }

  walk(to: Start | undefined, now: number): void {
    this.walked = to
    this.walkedAt = now
  }

  /** A job of this key has ended or was stored here. */
  touched(key: string): void {
    this.ready.add(key)
  }

  /** Something happened of which it is not known which key it made ready. */
  stir(): void {
    this.blockedAt = undefined
  }

  /** Whether all but the ready keys are known to have nothing that could be claimed. */
  isBlocked(now: number): boolean {
    return this.blockedAt !== undefined && now - this.blockedAt < blockedFor
  }

  takeReady(most: number): ReadonlyArray<string> {
    const taken = [...this.ready].slice(0, most)
    for (const key of taken) this.ready.delete(key)
    return taken
  }

  /** All keys are about to be looked at. */
  looks(): void {
    this.ready.clear()
  }

  /** Every key was looked at, and none has more. */
  markBlocked(now: number): void {
    this.blockedAt = now
  }

  /** When the line is worth another look although nobody said so; nothing where it is worth one now. */
  blockedUntil(now: number): number | undefined {
    return this.isBlocked(now) && this.blockedAt !== undefined ? this.blockedAt + blockedFor : undefined
  }

  /** The instant up to which every due job has been seen, and was not to be had. */
  get seenUntil(): number {
    return this.blockedAt ?? 0
  }
}
