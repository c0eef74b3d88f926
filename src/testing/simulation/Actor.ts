import type { Fiber, Scheduler } from "effect"

/** So much work without a pause is a loop that never waits. Fibers are not cut off before: an act of the database is whole. */
const mostOperations = 1_000_000

/**
 * A process of the simulation, as a Scheduler of its own: its fibers run when it is given a turn, in the order in which they
 * became ready. One that is paused gets none; one that is killed never gets another, and nothing of it is closed.
 */
export class Actor implements Scheduler.Scheduler {
  private tasks: Array<Scheduler.Task> = []
  private next = 0
  private paused = false
  private killed = false
  /** How many handlers it runs that may wait for something else than virtual time. */
  waiting = 0

  constructor(readonly name: string) {}

  get isGone(): boolean {
    return this.killed
  }

  get isPaused(): boolean {
    return this.paused
  }

  /** Whether it could do something if it were given a turn. */
  get isReady(): boolean {
    return !this.paused && !this.killed && this.next < this.tasks.length
  }

  shouldYield(fiber: Fiber.RuntimeFiber<unknown, unknown>): number | false {
    return fiber.currentOpCount > mostOperations ? 0 : false
  }

  scheduleTask(task: Scheduler.Task): void {
    if (!this.killed) this.tasks.push(task)
  }

  turn(): void {
    const task = this.tasks[this.next]
    this.next += 1
    if (this.next === this.tasks.length) {
      this.tasks = []
      this.next = 0
    }
    task?.()
  }

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
  }

  kill(): void {
    this.killed = true
    this.tasks = []
    this.next = 0
    this.waiting = 0
  }
}
