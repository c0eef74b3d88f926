import type { PodId } from "../../core/Ids.js"
import type { DeadReason } from "../../core/StoredJob.js"
import { type BucketCount, type JobCounts, noCounts } from "../../telemetry/BucketCount.js"

type Name = keyof JobCounts

const names = Object.keys(noCounts) as ReadonlyArray<Name>

/** Adds counts. */
export const sum = (all: Iterable<JobCounts>): JobCounts => {
  const total: Record<Name, number> = { ...noCounts }
  for (const counts of all) for (const name of names) total[name] += counts[name]
  return total
}

/** Compares the events that the checker observed with the counts that pods flushed. */
export class CountsModel {
  private readonly seen = new Map<string, Record<Name, number>>()
  private readonly written = new Map<
    string,
    { readonly who: string; readonly revision: number; readonly counts: JobCounts }
  >()
  /** Counts kept by the database side instead of a pod. */
  readonly shared: Record<Name, number> = { ...noCounts }

  began(who: string): void {
    this.add(who, "started")
  }

  ended(who: string, how: "completed" | "dead" | "cancelled" | "retried"): void {
    this.add(who, how)
  }

  stored(): void {
    this.shared.enqueued += 1
  }

  recovered(reason: DeadReason | undefined): void {
    const name = reason === undefined ? "rescued" : reason === "cancelled" ? "cancelled" : "dead"
    this.shared[name] += 1
  }

  cancelled(): void {
    this.shared.cancelled += 1
  }

  /** Uses only the one-minute buckets; wider buckets hold the same counts. */
  recorded(who: string, pod: PodId, revision: number, counts: ReadonlyArray<BucketCount>): void {
    for (const count of counts.filter(({ grain }) => grain === 1)) {
      const key = `${pod} ${count.queue} ${count.kind} ${count.start}`
      if ((this.written.get(key)?.revision ?? 0) < revision) this.written.set(key, { who, revision, counts: count })
    }
  }

  /** Returns the observed and the flushed counts of a process. */
  of(who: string): { readonly seen: JobCounts; readonly written: JobCounts } {
    const own = [...this.written.values()].filter((each) => each.who === who)
    return { seen: this.seen.get(who) ?? noCounts, written: sum(own.map(({ counts }) => counts)) }
  }

  /** Names of all processes with observed events. */
  get processes(): ReadonlyArray<string> {
    return [...this.seen.keys()]
  }

  /** Sum of all counts flushed by pods. */
  get total(): JobCounts {
    return sum([...this.written.values()].map(({ counts }) => counts))
  }

  private add(who: string, name: Name): void {
    const counts = this.seen.get(who) ?? { ...noCounts }
    counts[name] += 1
    this.seen.set(who, counts)
  }
}
