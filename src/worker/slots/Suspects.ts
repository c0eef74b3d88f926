import { limits } from "../../core/StoredJob.js"
import type { ClaimedJob } from "../../queue/Queue.js"

// A job that has crashed its process is a suspect, and so are all jobs that ran beside it. After one crash they run as
// before, because most crashes are kills of the process. From the second crash on, a process holds fewer jobs of the queue
// beside a suspect, so that a crash is blamed on fewer of them, and nothing beside one that dies with the next crash.
// Claims are limited, and never undone: a job that was there before a suspect has fewer crashes than the limit.

type Suspect = Pick<ClaimedJob, "crashCount">

const isSuspect = ({ crashCount }: Suspect) => crashCount >= 2

/** How many jobs run together if one of them has this many crashes: a quarter, then a sixteenth of the slots, then one. */
const most = (crashes: number, slots: number) =>
  crashes >= limits.crashes - 1 ? 1 : Math.ceil(slots / 4 ** (crashes - 1))

/** How many jobs of a queue may be claimed beside those that a process holds. */
export const roomBeside = (held: ReadonlyArray<Suspect>, slots: number): number => {
  const crashes = held.reduce((highest, { crashCount }) => Math.max(highest, crashCount), 0)
  return isSuspect({ crashCount: crashes }) ? Math.max(0, most(crashes, slots) - held.length) : Number.POSITIVE_INFINITY
}

/** The suspects of a queue that this process holds. */
export class Suspects {
  private suspects: ReadonlyArray<ClaimedJob> = []

  constructor(
    /** All jobs of the queue that this process holds. */
    private readonly held: () => ReadonlyArray<ClaimedJob>,
    private readonly slots: () => number
  ) {}

  /** Reports claimed jobs. Forgets suspects that have ended. */
  claimed(jobs: ReadonlyArray<ClaimedJob>): void {
    if (this.suspects.length === 0 && !jobs.some(isSuspect)) return
    const held = new Set(this.held())
    this.suspects = [...this.suspects.filter((job) => held.has(job)), ...jobs.filter(isSuspect)]
  }

  /** How many more jobs may be claimed. Nearly always infinite, without a look at the jobs. */
  room(): number {
    return this.suspects.length === 0 ? Number.POSITIVE_INFINITY : roomBeside(this.held(), this.slots())
  }
}
