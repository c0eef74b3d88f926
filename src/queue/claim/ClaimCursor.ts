// Where claims of a queue begin. A job that has been taken stays in the claim index while it runs, and its entry stays
// there after its end until vacuum may remove it, which a long transaction anywhere in the database prevents. A scan from
// the front would visit all of them again at every claim. So each priority remembers where the last claim ended, and the
// next one starts there: what lies before was taken. What lands before it later (late commits, releases, other pods' jobs,
// new priorities) is found by a look from the front, once a second, whether claims come back short or full. Where a look
// takes long because dead entries cannot be removed, full claims are interrupted by it less often: it may take a twentieth
// of the time, and ten seconds pass between two at most.

const zeroId = "00000000-0000-0000-0000-000000000000"
const rescanEvery = 1_000
/** Under full claims: how many times as long as a look takes must pass until the next, and how much at most. */
const rescanShare = 20
const rescanAtLatest = 10_000
const probeEvery = 1_000

/** How long a job may take from its instant to its commit and still be met by the next claim of an idle queue. */
const lateCommit = 500

export interface Start {
  readonly priority: number
  readonly runAt: number
  readonly id: string
}

const front = (priority: number): Start => ({ priority, runAt: 0, id: zeroId })

const isBefore = (a: Start, b: Start) => a.runAt < b.runAt || (a.runAt === b.runAt && a.id < b.id)

/** What a claim of one queue knows about where to look. */
export class ClaimCursor {
  private starts: ReadonlyArray<Start> = []
  private lastRescan = Number.NEGATIVE_INFINITY
  private lastProbe = Number.NEGATIVE_INFINITY
  private pause = rescanEvery

  /** Where to begin, by priority. */
  get from(): ReadonlyArray<Start> {
    return this.starts
  }

  get priorities(): ReadonlyArray<number> {
    return this.starts.map(({ priority }) => priority)
  }

  /** Whether it is time to look from the front although claims come back full. */
  isRescanDue(now: number): boolean {
    return now - this.lastRescan >= (this.starts.length === 0 ? rescanEvery : this.pause)
  }

  /** A look from the front, with the claim that followed it, took this many milliseconds. */
  lookTook(millis: number): void {
    this.pause = Math.min(rescanAtLatest, Math.max(rescanEvery, millis * rescanShare))
  }

  /** Whether a look from the front may follow a claim that came back short. */
  mayRescan(now: number): boolean {
    return now - this.lastRescan >= rescanEvery
  }

  /** Whether it is time to look for priorities that appeared beside the known ones. */
  isProbeDue(now: number): boolean {
    return now - this.lastProbe >= probeEvery
  }

  /** The front is looked at anew: these priorities have jobs. */
  rescan(priorities: ReadonlyArray<number>, now: number): void {
    // Priorities that have nothing just now may have something in a moment, from a process that cannot tell us which.
    const known = this.starts.filter(({ priority }) => !priorities.includes(priority))
    const usual = priorities.includes(0) || known.some(({ priority }) => priority === 0) ? [] : [front(0)]
    this.starts = [...priorities.map(front), ...known, ...usual].sort((a, b) => a.priority - b.priority)
    this.lastRescan = now
    this.lastProbe = now
  }

  /** The gaps between known priorities were looked at, and these have jobs. */
  probed(priorities: ReadonlyArray<number>, now: number): void {
    for (const priority of priorities) this.saw(front(priority))
    this.lastProbe = now
  }

  /** A job was stored here: the next claim must not begin behind it. */
  saw(job: Start): void {
    const known = this.starts.find(({ priority }) => priority === job.priority)
    if (known !== undefined && !isBefore(job, known)) return
    const start = { priority: job.priority, runAt: job.runAt, id: job.id }
    this.starts = [...this.starts.filter((other) => other !== known), start].sort((a, b) => a.priority - b.priority)
  }

  /** A claim took jobs, of each priority up to this one. The next one begins where this one ended. */
  took(lasts: ReadonlyMap<number, Start>, lastReached: number | undefined, wasFull: boolean, now: number): void {
    const behind = now - lateCommit
    this.starts = this.starts.map((start) => {
      const last = lasts.get(start.priority)
      // All but what is just being committed lies behind.
      if (last !== undefined && last.runAt <= behind) return last
      const lookedThrough =
        last !== undefined || !wasFull || (lastReached !== undefined && start.priority < lastReached)
      return lookedThrough && start.runAt < behind ? { ...front(start.priority), runAt: behind } : start
    })
  }
}
