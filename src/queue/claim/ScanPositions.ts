import { zeroId } from "../../core/Ids.js"

// Where claims of a queue start to scan. A claimed job stays in the claim index while it runs, and its dead entry stays
// until vacuum removes it, which a long transaction anywhere in the database prevents. A scan from the front would
// visit all of them at every claim. So each priority remembers where the last claim ended, and the next claim starts
// there. Jobs that appear before that position later (late commits, retries, other pods' jobs, new priorities) are
// found by a rescan from the front once a second, whether or not claims are full. If a rescan is slow because of dead
// entries, full claims are interrupted less often: a rescan may take 1/20 of the time, and the pause between two is at
// most ten seconds.

const rescanEvery = 1_000
/**
 * While claims are full: the pause until the next rescan, as a multiple of the last one's duration, and its upper
 * bound.
 */
const rescanShare = 20
const rescanAtLatest = 10_000
const probeEvery = 1_000

/**
 * A job that commits at most this many milliseconds after its timestamp is found by the next claim of an idle queue.
 */
const lateCommit = 500

/** A position in the claim index of a queue. */
export interface Start {
  readonly priority: number
  readonly runAt: number
  readonly id: string
}

const front = (priority: number): Start => ({ priority, runAt: 0, id: zeroId })

/** Whether a claim takes `a` before `b`, if they have the same priority. */
export const isBefore = (a: Start, b: Start) => a.runAt < b.runAt || (a.runAt === b.runAt && a.id < b.id)

/** Scan positions of one queue. */
export class ScanPositions {
  private starts: ReadonlyArray<Start> = []
  private lastRescan = Number.NEGATIVE_INFINITY
  private lastProbe = Number.NEGATIVE_INFINITY
  private pause = rescanEvery

  get from(): ReadonlyArray<Start> {
    return this.starts
  }

  get priorities(): ReadonlyArray<number> {
    return this.starts.map(({ priority }) => priority)
  }

  /** Whether to rescan from the front even though claims are full. */
  isRescanDue(now: number): boolean {
    return now - this.lastRescan >= (this.starts.length === 0 ? rescanEvery : this.pause)
  }

  /** Records the duration of a rescan and the claim that followed, in milliseconds. */
  lookTook(millis: number): void {
    this.pause = Math.min(rescanAtLatest, Math.max(rescanEvery, millis * rescanShare))
  }

  /** Whether a claim that returned too few jobs may rescan from the front. */
  mayRescan(now: number): boolean {
    return now - this.lastRescan >= rescanEvery
  }

  /** Whether to look for new priorities between the known ones. */
  isProbeDue(now: number): boolean {
    return now - this.lastProbe >= probeEvery
  }

  /** Resets the positions to the front. These priorities have jobs. */
  rescan(priorities: ReadonlyArray<number>, now: number): void {
    // Keep priorities without jobs: another process may store jobs there, and this process does not learn their
    // priority.
    const known = this.starts.filter(({ priority }) => !priorities.includes(priority))
    const defaultPriority = priorities.includes(0) || known.some(({ priority }) => priority === 0) ? [] : [front(0)]
    this.starts = [...priorities.map(front), ...known, ...defaultPriority].sort((a, b) => a.priority - b.priority)
    this.lastRescan = now
    this.lastProbe = now
  }

  /** Adds priorities found between the known ones. */
  probed(priorities: ReadonlyArray<number>, now: number): void {
    for (const priority of priorities) this.saw(front(priority))
    this.lastProbe = now
  }

  /** Moves the position back to a job stored here, so that the next claim does not skip it. */
  saw(job: Start): void {
    const known = this.starts.find(({ priority }) => priority === job.priority)
    if (known !== undefined && !isBefore(job, known)) return
    const start = { priority: job.priority, runAt: job.runAt, id: job.id }
    this.starts = [...this.starts.filter((other) => other !== known), start].sort((a, b) => a.priority - b.priority)
  }

  /** Advances the positions past the claimed jobs; `lasts` holds the last one of each priority. */
  took(lasts: ReadonlyMap<number, Start>, lastReached: number | undefined, wasFull: boolean, now: number): void {
    const behind = now - lateCommit
    this.starts = this.starts.map((start) => {
      const last = lasts.get(start.priority)
      // Earlier entries are taken, except those whose commit is still in flight.
      if (last !== undefined && last.runAt <= behind) return last
      const lookedThrough =
        last !== undefined || !wasFull || (lastReached !== undefined && start.priority < lastReached)
      return lookedThrough && start.runAt < behind ? { ...front(start.priority), runAt: behind } : start
    })
  }
}
