import { Duration } from "effect"
import type { QueueSettings } from "./settings/QueueSettings.js"

// Finished jobs are indexed by finish time, not by queue. Jobs with the same retention are purged together: those that
// expired since the last pass finished in a narrow time range, and only that range is read.

/** Finished jobs with the same retention. */
export interface RetentionClass {
  readonly status: "done" | "dead"
  /** The queues included, or excluded if `onlyThese` is false. */
  readonly queues: ReadonlyArray<string>
  readonly onlyThese: boolean
  readonly keepFor: Duration.Duration
}

const retentionClass = (status: "done" | "dead", queue: string, keepFor: Duration.Duration): RetentionClass => ({
  status,
  queues: [queue],
  onlyThese: true,
  keepFor
})

/** Derives the retention classes from the queue settings. Dead jobs are kept unless their queue has a setting. */
export const classesOf = (
  settings: ReadonlyArray<QueueSettings>,
  doneRetention: Duration.Duration
): ReadonlyArray<RetentionClass> => {
  const own = settings.flatMap(({ name, retainDone }) =>
    retainDone === undefined ? [] : [retentionClass("done", name, retainDone)]
  )
  const dead = settings.flatMap(({ name, retainDead }) =>
    retainDead === undefined ? [] : [retentionClass("dead", name, retainDead)]
  )
  const rest: RetentionClass = {
    status: "done",
    queues: own.flatMap(({ queues }) => queues),
    onlyThese: false,
    keepFor: doneRetention
  }
  return [rest, ...own, ...dead]
}

export const covers = (
  { onlyThese, queues, status }: RetentionClass,
  job: { status: string; queue: string }
): boolean => job.status === status && queues.includes(job.queue) === onlyThese

/** A finish time is set before its commit, so the last minute is read again. */
const overlap = Duration.toMillis("1 minute")

/**
 * How often everything is read again. An undo, a move from another cell or a commit that took long stores jobs that had finished
 * before.
 */
const thoroughEvery = Duration.toMillis("1 day")

/** Remembers how far each class has been purged. */
export class RetentionMemory {
  /** Until when, and until when at the last time that everything was read. */
  private readonly lookedThrough = new Map<string, { readonly until: number; readonly thorough: number }>()

  private keyOf(group: RetentionClass): string {
    return JSON.stringify([group.status, group.queues, group.onlyThese, Duration.toMillis(group.keepFor)])
  }

  /** Start of the range to read until `until`, in epoch milliseconds. */
  from(group: RetentionClass, until: number): number {
    const last = this.lookedThrough.get(this.keyOf(group))
    return last === undefined || until - last.thorough >= thoroughEvery ? 0 : Math.max(0, last.until - overlap)
  }

  /** Marks everything that finished between `from` and `until` as purged. Drops classes that no longer exist. */
  done(group: RetentionClass, from: number, until: number, all: ReadonlyArray<RetentionClass>): void {
    const living = new Set(all.map((other) => this.keyOf(other)))
    for (const key of this.lookedThrough.keys()) if (!living.has(key)) this.lookedThrough.delete(key)
    const last = this.lookedThrough.get(this.keyOf(group))
    this.lookedThrough.set(this.keyOf(group), { until, thorough: from === 0 ? until : (last?.thorough ?? until) })
  }
}
