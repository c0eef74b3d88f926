import { Clock, Duration, Effect } from "effect"
import type { AlarmClock } from "../../core/Alarm.js"
import { drawn } from "./Seed.js"

// Virtual time that jumps from one sleeper to the next. It moves only when `step` is called.

interface Sleeper {
  readonly at: number
  readonly number: number
  readonly owner: string
  /** Set to undefined when cancelled: skipping the entry is cheaper than removing it from the middle of the heap. */
  wake: (() => void) | undefined
}

const isBefore = (a: Sleeper, b: Sleeper) => a.at < b.at || (a.at === b.at && a.number < b.number)

/** A binary heap of sleepers, ordered by wake-up time, then by insertion. */
const makeHeap = () => {
  const heap: Array<Sleeper> = []

  const swap = (a: number, b: number) => {
    const first = heap[a]
    const second = heap[b]
    if (first === undefined || second === undefined) return
    heap[a] = second
    heap[b] = first
  }

  const goesBefore = (a: number, b: number): boolean => {
    const first = heap[a]
    const second = heap[b]
    return first !== undefined && second !== undefined && isBefore(first, second)
  }

  return {
    all: heap as ReadonlyArray<Sleeper>,
    first: () => heap[0],
    push: (sleeper: Sleeper) => {
      let place = heap.push(sleeper) - 1
      while (place > 0) {
        const above = (place - 1) >> 1
        if (!goesBefore(place, above)) break
        swap(place, above)
        place = above
      }
    },
    pop: (): Sleeper | undefined => {
      swap(0, heap.length - 1)
      const popped = heap.pop()
      let place = 0
      for (;;) {
        const left = 2 * place + 1
        const least = goesBefore(left + 1, left) ? left + 1 : left
        if (!goesBefore(least, place)) return popped
        swap(place, least)
        place = least
      }
    }
  }
}

/** The true time of a simulation. */
export class SteppingClock {
  private readonly heap = makeHeap()
  private numbered = 0

  /** Epoch milliseconds. */
  constructor(private millis: number) {}

  get now(): number {
    return this.millis
  }

  /** Calls `wake` after a delay in milliseconds. Returns a function that cancels it. */
  after(owner: string, delay: number, wake: () => void): () => void {
    this.numbered += 1
    const at = this.millis + Math.max(0, Math.ceil(delay))
    const sleeper: Sleeper = { at, number: this.numbered, owner, wake }
    this.heap.push(sleeper)
    return () => {
      sleeper.wake = undefined
    }
  }

  /** Jumps to the next wake-up time and wakes all sleepers of that instant. Returns false if there is none. */
  step(): boolean {
    const next = this.nextWanted()
    if (next === undefined) return false
    this.millis = next.at
    for (let due = this.nextWanted(); due !== undefined && due.at <= this.millis; due = this.nextWanted()) {
      this.heap.pop()
      due.wake?.()
    }
    return true
  }

  /** Time of the next wake-up. */
  get nextAt(): number | undefined {
    return this.nextWanted()?.at
  }

  /** Times of all wake-ups, earliest first. */
  get instants(): ReadonlyArray<number> {
    const wanted = this.heap.all.filter(({ wake }) => wake !== undefined)
    return wanted.map(({ at }) => at).sort((a, b) => a - b)
  }

  /** Sets the time without waking sleepers. */
  set(millis: number): void {
    this.millis = millis
  }

  /** Returns the number of a process's sleepers. */
  sleepers(owner: string): number {
    return this.heap.all.filter((sleeper) => sleeper.owner === owner && sleeper.wake !== undefined).length
  }

  /** Cancels all sleepers of a process. */
  forget(owner: string): void {
    for (const sleeper of this.heap.all) if (sleeper.owner === owner) sleeper.wake = undefined
  }

  /**
   * Returns the Clock of one process. Its monotonic time starts at an arbitrary origin per process; with a `pace` below
   * 1 it runs slow, and sleeps take longer.
   */
  clockOf(owner: string, now: () => number, pace = 1): AlarmClock {
    const origin = Math.floor(drawn(0, `boot ${owner}`) * 1_000_000_000)
    const nanos = () => BigInt(Math.floor((this.millis - origin) * pace)) * 1_000_000n
    return {
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      unsafeCurrentTimeMillis: now,
      unsafeCurrentTimeNanos: nanos,
      currentTimeMillis: Effect.sync(now),
      currentTimeNanos: Effect.sync(nanos),
      alarm: (fiber, delay, ring) => {
        if (!Number.isFinite(delay)) return () => {}
        const cancel = this.after(owner, delay / pace, () => {
          fiber.removeObserver(cancel)
          fiber.currentScheduler.scheduleTask(ring, 0)
        })
        fiber.addObserver(cancel)
        return () => {
          fiber.removeObserver(cancel)
          cancel()
        }
      },
      // The end of the fiber cancels it, without a finalizer, which would take as many operations as the rest of a pass.
      sleep: (duration) =>
        Effect.withFiberRuntime((fiber) =>
          Effect.async<void>((resume) => {
            const millis = Duration.toMillis(duration)
            if (!Number.isFinite(millis)) return
            const cancel = this.after(owner, millis / pace, () => {
              fiber.removeObserver(cancel)
              resume(Effect.void)
            })
            fiber.addObserver(cancel)
          })
        )
    }
  }

  private nextWanted(): Sleeper | undefined {
    for (;;) {
      const first = this.heap.first()
      if (first === undefined || first.wake !== undefined) return first
      this.heap.pop()
    }
  }
}
