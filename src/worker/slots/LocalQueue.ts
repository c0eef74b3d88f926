import { Effect } from "effect"
import type { ClaimedJob } from "../../queue/Queue.js"

export interface Waiter {
  /** Completes when there may be a job. */
  readonly somethingToDo: Effect.Effect<void>
  /**
   * Ends an interrupted wait. Runs once when the slot ends: a finalizer for each wait would allocate several objects that
   * reach old space.
   */
  readonly leave: Effect.Effect<void>
}

/**
 * Claimed jobs that wait for a slot. Uses plain calls instead of effects, because a busy queue passes tens of thousands
 * of jobs per second. A slot that finds the queue empty waits to be woken and then takes again, so a job is always
 * either here or in a slot.
 */
export class LocalQueue {
  /** Undefined where a job was taken. */
  private jobs: Array<ClaimedJob | undefined> = []
  private next = 0
  /**
   * Not a Set: V8 links each table that a Set replaces to the next one, so a dead table that has reached old space keeps
   * the callbacks of all later ones in memory until the next full garbage collection.
   */
  private readonly idle: Array<() => void> = []
  private reserved = 0

  /** `onPut` is called when jobs are added. */
  constructor(private readonly onPut: () => void = () => {}) {}

  /** Number of jobs that have not started. */
  get size(): number {
    return this.jobs.length - this.next
  }

  /** Number of slots that wait for a job and have none reserved. */
  get idleSlots(): number {
    return Math.max(0, this.idle.length - this.reserved)
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
    return this.jobs.slice(this.next) as Array<ClaimedJob>
  }

  put(jobs: ReadonlyArray<ClaimedJob>): void {
    this.jobs = this.waiting.concat(jobs)
    this.next = 0
    if (jobs.length > 0) this.onPut()
    for (const wake of this.idle.splice(0, jobs.length)) wake()
  }

  take(): ClaimedJob | undefined {
    const job = this.jobs[this.next]
    if (job === undefined) return undefined
    // Otherwise the array would keep all jobs of a claim in memory until the next claim.
    this.jobs[this.next] = undefined
    this.next += 1
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
    for (const wake of this.idle.splice(0)) wake()
  }

  /** Lets one slot wait for jobs. `onIdle` is called whenever it starts waiting. */
  waiter(onIdle: () => void): Waiter {
    let resume: (effect: Effect.Effect<void>) => void = () => {}
    const wake = () => resume(Effect.void)
    return {
      somethingToDo: Effect.async<void>((resumeWait) => {
        resume = resumeWait
        this.idle.push(wake)
        onIdle()
      }),
      leave: Effect.sync(() => {
        const index = this.idle.indexOf(wake)
        if (index >= 0) this.idle.splice(index, 1)
      })
    }
  }
}
