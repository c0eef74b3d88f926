import { Effect } from "effect"
import type { ClaimedJob } from "../../queue/Queue.js"

/**
 * Claimed jobs that wait for a slot. Uses plain calls instead of effects, because a busy queue passes tens of thousands
 * of jobs per second. A slot that finds it empty waits to be woken and then takes again, so a job is always either here
 * or in a slot.
 */
export class LocalQueue {
  private jobs: Array<ClaimedJob> = []
  private next = 0
  private readonly idle = new Set<() => void>()
  private reserved = 0

  /** `onPut` is called when jobs are added. */
  constructor(private readonly onPut: () => void = () => {}) {}

  /** Number of jobs that have not started. */
  get size(): number {
    return this.jobs.length - this.next
  }

  /** Number of slots that wait for a job and have none reserved. */
  get idleSlots(): number {
    return Math.max(0, this.idle.size - this.reserved)
  }

  /** Reserves idle slots for jobs that arrive by direct handoff, without a claim. */
  reserve(jobs: number): void {
    this.reserved += jobs
  }

  /** Releases reservations when the jobs have arrived or will not arrive. */
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

  /** Removes and returns the matching jobs. */
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

  /** Completes when there may be a job. `onIdle` is called when a slot starts waiting. */
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
