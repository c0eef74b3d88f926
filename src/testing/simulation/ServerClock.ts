import { SlewedTime } from "../../database/DatabaseClock.js"
import { drawn } from "./Seed.js"
import type { SteppingClock } from "./SteppingClock.js"

/** Milliseconds between two comparisons of a process's clock with the database's. */
const samplingInterval = 5_000

/**
 * The database's clock, and the processes that follow it like `DatabaseClock`: each notices a step at its next
 * comparison.
 */
export class ServerClock {
  private offset = 0
  private steps = 0
  private readonly followers = new Map<string, { readonly time: SlewedTime; readonly skew: number }>()

  constructor(
    private readonly clock: SteppingClock,
    private readonly seed: number
  ) {}

  /** Returns the clock of a process that starts now, with a constant skew, and slow if `pace` is below 1. */
  follow(owner: string, skew: number, pace = 1): () => number {
    const start = this.clock.now
    const lag = () => (this.clock.now - start) * (1 - pace)
    const time = new SlewedTime(() => this.clock.now - lag(), this.offset + skew)
    const compare = () => {
      time.setOffset(this.offset + skew + lag())
      this.clock.after("database", samplingInterval, compare)
    }
    if (pace < 1) this.clock.after("database", samplingInterval, compare)
    this.followers.set(owner, { time, skew })
    return () => Math.floor(time.now())
  }

  /** Gives a pod's processes a wrong offset until their next comparison, as after one misleading sample. */
  mislead(pod: string, millis: number): void {
    for (const [owner, { skew, time }] of this.followers) {
      if (owner.replace(/\..*/, "") !== pod) continue
      time.setOffset(this.offset + skew + millis)
      this.clock.after("database", samplingInterval, () => time.setOffset(this.offset + skew))
    }
  }

  /** Steps the database's clock. */
  step(millis: number): void {
    this.offset += millis
    this.steps += 1
    for (const [owner, { skew, time }] of this.followers) {
      const delay = drawn(this.seed, `clock ${owner} ${this.steps}`) * samplingInterval
      this.clock.after("database", delay, () => time.setOffset(this.offset + skew))
    }
  }
}
