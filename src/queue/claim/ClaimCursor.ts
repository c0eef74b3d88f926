import type { KeyScan } from "./KeyScan.js"
import { isBefore, ScanPositions, type Start } from "./ScanPositions.js"

// What this process remembers about a queue between two claims. The memory only saves work: the claim statement checks
// the queue and each job itself, and a scan from the front finds what the memory misses. See docs/learn/claim.md.

/** A job that this process has stored. */
export interface StoredJob extends Start {
  readonly queue: string
  readonly key: string | null
}

/** The memory of one queue. */
export class ClaimCursor {
  /** Where the scan in queue order starts. */
  positions = new ScanPositions()
  /** Which keys to try. Undefined until the queue is claimed by key. */
  keyScan: KeyScan | undefined
  /** Whether a claim has returned a workflow execution. Later claims read journals. */
  hasExecutions = false

  /** Whether the queue claims alone, because its claims may delay those of other queues. */
  isSlow = false

  private revision: number | undefined

  /** Forgets the positions if the settings have changed: under the old ones, a claim may have skipped due jobs. */
  useRevision(revision: number | undefined): void {
    if (this.revision === revision) return
    this.revision = revision
    this.rescan()
  }

  /** Jobs may be due before the positions. */
  rescan(): void {
    this.positions = new ScanPositions()
    this.keyScan?.markChanged()
  }
}

/** The cursors of this process, by queue. */
export class ClaimCursors {
  private readonly cursors = new Map<string, ClaimCursor>()

  of(queue: string): ClaimCursor {
    const cursor = this.cursors.get(queue) ?? new ClaimCursor()
    this.cursors.set(queue, cursor)
    return cursor
  }

  /** This process has stored these jobs. */
  stored(jobs: ReadonlyArray<StoredJob>): void {
    let cursor: ClaimCursor | undefined
    let first: StoredJob | undefined
    for (const job of jobs) {
      if (first === undefined || first.queue !== job.queue || first.priority !== job.priority) {
        if (first !== undefined) cursor?.positions.saw(first)
        cursor = this.of(job.queue)
        first = job
      } else if (isBefore(job, first)) {
        // Of neighbours with the same queue and priority, the first in order is enough.
        first = job
      }
      cursor?.keyScan?.stored(job.key)
    }
    if (first !== undefined) cursor?.positions.saw(first)
  }

  /** Jobs were returned to this queue, or another process has stored some. */
  rescan(queue: string): void {
    this.cursors.get(queue)?.rescan()
  }

  /** Another process may have changed jobs of this queue, or of any queue if undefined. */
  markChanged(queue: string | undefined): void {
    const changed = queue === undefined ? this.cursors.values() : [this.cursors.get(queue)]
    for (const cursor of changed) cursor?.keyScan?.markChanged()
  }

  /** A job of this key ended, so another may start. Returns whether this process claims by key in this queue. */
  freed(queue: string, key: string): boolean {
    const keyScan = this.cursors.get(queue)?.keyScan
    keyScan?.touched(key)
    return keyScan !== undefined
  }

  /** Set if every due job of the queue waits for its key: up to when jobs were seen, and when to look again. */
  blocked(queue: string, now: number): { readonly seenUntil: number; readonly until: number } | undefined {
    const keyScan = this.cursors.get(queue)?.keyScan
    const until = keyScan?.blockedUntil(now)
    return keyScan === undefined || until === undefined ? undefined : { seenUntil: keyScan.seenUntil, until }
  }
}
