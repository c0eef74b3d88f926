import { SteppingClock } from "../../../src/testing/simulation/SteppingClock.js"

/** Longest real time between two frames that counts, in milliseconds: the clock stands while the tab sleeps. */
const longestFrame = 250

/** Milliseconds between two frames. */
const frame = 10

/** Waits until all code that is ready has run. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** A clock of several processes that runs at a multiple of real time, from one wake-up to the next. */
export class RunningClock {
  readonly steps = new SteppingClock(Date.now())
  speed = 1
  private isStopped = false

  readonly now = (): number => this.steps.now

  async run(): Promise<void> {
    let before = performance.now()
    /** Epoch milliseconds with their fraction. The clock of the processes has whole ones, as that of a computer. */
    let exact = this.steps.now
    while (!this.isStopped) {
      await new Promise((resolve) => setTimeout(resolve, frame))
      const now = performance.now()
      exact += Math.min(now - before, longestFrame) * this.speed
      before = now
      const until = Math.floor(exact)
      while (!this.isStopped && (this.steps.nextAt ?? Number.POSITIVE_INFINITY) <= until) {
        this.steps.step()
        await turn()
      }
      this.steps.set(until)
    }
  }

  /** Stops the clock, and with it every process. */
  stop(): void {
    this.isStopped = true
  }
}
