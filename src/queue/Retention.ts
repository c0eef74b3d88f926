import { Duration } from "effect"
import type { QueueSettings } from "./settings/QueueSettings.js"

// Finished jobs are found by when they finished, whatever their queue. Jobs that share a retention are forgotten together:
// what has come of age since the last look finished in a narrow stretch of time, and only that is read.

/** Finished jobs that are kept equally long. */
export interface RetentionClass {
  readonly status: "done" | "dead"
  /** Of these queues, or of all but these. */
  readonly queues: ReadonlyArray<string>
  readonly onlyThese: boolean
  readonly keepFor: Duration.Duration
}

const classOf = (status: "done" | "dead", queue: string, keepFor: Duration.Duration): RetentionClass => ({
  status,
  queues: [queue],
  onlyThese: true,
  keepFor
})

/** Who is kept how long. A dead job stays unless its queue says otherwise. */
export const classesOf = (
  settings: ReadonlyArray<QueueSettings>,
  usual: Duration.Duration
): ReadonlyArray<RetentionClass> => {
  const own = settings.flatMap(({ name, retainDone }) =>
    retainDone === undefined ? [] : [classOf("done", name, retainDone)]
  )
  const dead = settings.flatMap(({ name, retainDead }) =>
    retainDead === undefined ? [] : [classOf("dead", name, retainDead)]
  )
  const rest: RetentionClass = {
    status: "done",
    queues: own.flatMap(({ queues }) => queues),
    onlyThese: false,
    keepFor: usual
  }
  return [rest, ...own, ...dead]
}

/** Whether a class has a finished job in it. */
export const covers = (
  { onlyThese, queues, status }: RetentionClass,
  job: { status: string; queue: string }
): boolean => job.status === status && queues.includes(job.queue) === onlyThese

/** An end is dated before it is committed, so the last stretch is read once more. */
const overlap = Duration.toMillis("1 minute")

/** Remembers up to when each class has been looked through. */
export class RetentionMemory {
  private readonly lookedThrough = new Map<string, number>()

  private keyOf(group: RetentionClass): string {
    return JSON.stringify([group.status, group.queues, group.onlyThese, Duration.toMillis(group.keepFor)])
  }

  /** From when on to look, in epoch milliseconds. */
  from(group: RetentionClass): number {
    const last = this.lookedThrough.get(this.keyOf(group))
    return last === undefined ? 0 : Math.max(0, last - overlap)
  }

  /** All that finished before this instant has been looked at. Classes that are no more are forgotten. */
  done(group: RetentionClass, until: number, all: ReadonlyArray<RetentionClass>): void {
    const living = new Set(all.map((other) => this.keyOf(other)))
    for (const key of this.lookedThrough.keys()) if (!living.has(key)) this.lookedThrough.delete(key)
    this.lookedThrough.set(this.keyOf(group), until)
  }
}
