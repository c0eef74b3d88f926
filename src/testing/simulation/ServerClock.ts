import { SlewedTime } from "../../database/SlewedTime.js"
import { drawn } from "./Seed.js"
import type { SteppingClock } from "./SteppingClock.js"

/** A process compares its clock with the database's this often, in the proportions of a simulation. */
const samplingInterval = 5_000

/** The database's clock, and the processes that follow it as `DatabaseClock` does: each notices a step after a while. */
export class ServerClock {
  private offset = 0
  private steps = 0
  private readonly followers = new Map<string, { readonly time: SlewedTime; readonly skew: number }>()

  constructor(
    private readonly clock: SteppingClock,
    private readonly seed: number
  ) {}

  /** The time of a process that starts now. It reads the database's clock first, and is off by as much as it misread. */
  follow(owner: string, skew: number): () => number {
    const time = new SlewedTime(() => this.clock.now, this.offset + skew)
    this.followers.set(owner, { time, skew })
    return () => Math.floor(time.now())
  }

  /** The database's clock jumps. */
  step(millis: number): void {
    this.offset += millis
    this.steps += 1
    for (const [owner, { skew, time }] of this.followers) {
      const delay = drawn(this.seed, `clock ${owner} ${this.steps}`) * samplingInterval
      this.clock.after("database", delay, () => time.aim(this.offset + skew))
    }
  }
}
