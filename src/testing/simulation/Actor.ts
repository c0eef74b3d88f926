import type { Fiber, Scheduler } from "effect"

/**
 * Operations after which a fiber must yield. It is high because in-memory database operations must be atomic; only an
 * endless loop reaches it.
 */
const maxOperations = 1_000_000

/**
 * A simulated process, implemented as a Scheduler. Each turn runs its next ready fiber, in FIFO order. A paused process
 * gets no turns; a killed one never runs again, not even its finalizers.
 */
export class Actor implements Scheduler.Scheduler {
  private tasks: Array<Scheduler.Task> = []
  private next = 0
  private paused = false
  private killed = false
  /** The run of this process is over. */
  isOver = false
  /** Number of running handlers that may await something other than virtual time. */
  waiting = 0

  constructor(readonly name: string) {}

  get isGone(): boolean {
    return this.killed
  }

  get isPaused(): boolean {
    return this.paused
  }

  /** Whether a fiber is ready to run. */
  get isReady(): boolean {
    return !this.paused && !this.killed && this.next < this.tasks.length
  }

  shouldYield(fiber: Fiber.RuntimeFiber<unknown, unknown>): number | false {
    return fiber.currentOpCount > maxOperations ? 0 : false
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
