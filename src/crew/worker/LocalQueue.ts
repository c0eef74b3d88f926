import { Effect } from "effect"
import type { ClaimedJob } from "../../queue/Queue.js"

/**
 * Claimed jobs on their way to a slot. Plain calls: a busy queue moves tens of thousands a second over it. A slot that finds
 * it empty waits to be woken and then looks again, so a job is never in nobody's hands.
 */
export class LocalQueue {
  private jobs: Array<ClaimedJob> = []
  private next = 0
  private readonly idle = new Set<() => void>()
  private reserved = 0

  /** `onPut` hears that this pod holds another job. */
  constructor(private readonly onPut: () => void = () => {}) {}

  /** Jobs that nobody has begun. */
  get size(): number {
    return this.jobs.length - this.next
  }

  /** Slots that wait for one, and have not been reserved any. */
  get idleSlots(): number {
    return Math.max(0, this.idle.size - this.reserved)
  }

  /** Jobs are on their way here that nobody has to claim. */
  reserve(jobs: number): void {
    this.reserved += jobs
  }

  /** They have come, or will not. */
  unreserve(jobs: number): void {
    this.reserved -= jobs
  }

  get waiting(): ReadonlyArray<ClaimedJob> {
    return this.jobs.slice(this.next)
  }

  put(jobs: ReadonlyArray<ClaimedJob>): void {
    this.jobs = this.size === 0 ? [...jobs] : [...this.waiting, ...jobs]
    this.next = 0
    if (jobs.length > 0) this.onPut()
    for (const wake of [...this.idle].slice(0, jobs.length)) wake()
  }

  take(): ClaimedJob | undefined {
    const job = this.jobs[this.next]
    if (job !== undefined) this.next += 1
    return job
  }

  /** Takes away those that match. */
  remove(matches: (job: ClaimedJob) => boolean): ReadonlyArray<ClaimedJob> {
    const removed = this.waiting.filter(matches)
    if (removed.length > 0) {
      this.jobs = this.waiting.filter((job) => !matches(job))
      this.next = 0
    }
    return removed
  }

  wakeAll(): void {
    for (const wake of [...this.idle]) wake()
  }

  /** Completes when there may be a job. `onIdle` hears that one more slot has nothing to do. */
  readonly somethingToDo = (onIdle: () => void): Effect.Effect<void> =>
    Effect.async<void>((resume) => {
      const wake = () => {
        this.idle.delete(wake)
        resume(Effect.void)
      }
      this.idle.add(wake)
      onIdle()
      return Effect.sync(() => void this.idle.delete(wake))
    })
}
