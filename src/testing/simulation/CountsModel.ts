import type { PodId } from "../../core/Ids.js"
import type { Status } from "../../core/StoredJob.js"
import { type BucketCount, type JobCounts, noCounts } from "../../telemetry/BucketCount.js"

type Name = keyof JobCounts

const names = Object.keys(noCounts) as ReadonlyArray<Name>

/** All of them together. */
export const sum = (all: Iterable<JobCounts>): JobCounts => {
  const total = { ...noCounts }
  for (const counts of all) for (const name of names) Object.assign(total, { [name]: total[name] + counts[name] })
  return total
}

/** What happened as it was seen, beside what the pods counted and wrote of it. */
export class CountsModel {
  private readonly seen = new Map<string, JobCounts>()
  private readonly written = new Map<
    string,
    { readonly who: string; readonly revision: number; readonly counts: JobCounts }
  >()
  /** What nobody's pod counts but the database's own side. */
  shared: JobCounts = noCounts

  began(who: string): void {
    this.add(who, "started")
  }

  ended(who: string, how: "done" | "dead" | "retried"): void {
    this.add(who, how === "done" ? "completed" : how)
  }

  stored(): void {
    this.shared = { ...this.shared, enqueued: this.shared.enqueued + 1 }
  }

  recovered(became: Status): void {
    const name = became === "pending" ? "rescued" : "dead"
    this.shared = { ...this.shared, [name]: this.shared[name] + 1 }
  }

  cancelled(): void {
    this.shared = { ...this.shared, dead: this.shared.dead + 1 }
  }

  /** Every width of bucket holds the same counts: the minutes are enough. */
  recorded(who: string, pod: PodId, revision: number, counts: ReadonlyArray<BucketCount>): void {
    for (const count of counts.filter(({ grain }) => grain === 1)) {
      const key = `${pod} ${count.queue} ${count.kind} ${count.start}`
      if ((this.written.get(key)?.revision ?? 0) < revision) this.written.set(key, { who, revision, counts: count })
    }
  }

  /** What a pod did, and what it has written of it. */
  of(who: string): { readonly seen: JobCounts; readonly written: JobCounts } {
    const own = [...this.written.values()].filter((each) => each.who === who)
    return { seen: this.seen.get(who) ?? noCounts, written: sum(own.map(({ counts }) => counts)) }
  }

  /** Everybody who did something. */
  get everybody(): ReadonlyArray<string> {
    return [...this.seen.keys()]
  }

  /** All that the pods have written. */
  get total(): JobCounts {
    return sum([...this.written.values()].map(({ counts }) => counts))
  }

  private add(who: string, name: Name): void {
    const counts = this.seen.get(who) ?? noCounts
    this.seen.set(who, { ...counts, [name]: counts[name] + 1 })
  }
}
