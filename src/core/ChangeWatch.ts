import { type Clock, Effect } from "effect"

// Liveness detection without comparing clocks. A process counts as alive while the value it writes keeps changing, and
// the observer measures the time between changes on its own monotonic clock. Comparing timestamps from two machines
// would declare live processes dead after a clock adjustment, or after a failover to a server with a different clock.

/**
 * Reads this process's monotonic clock in milliseconds. It only measures intervals; wall clock adjustments do not
 * affect it.
 */
export const steadyMillis = (clock: Clock.Clock): number => Number(clock.unsafeCurrentTimeNanos()) / 1e6

export const steadyNow: Effect.Effect<number> = Effect.clockWith((clock) => Effect.sync(() => steadyMillis(clock)))

interface Seen<V> {
  readonly value: V
  /** When this value was first seen, on the monotonic clock. */
  readonly since: number
}

/** Tracks the current value of each key and how long it has been unchanged. */
export class ChangeWatch<K, V> {
  private seen = new Map<K, Seen<V>>()

  /** Pass `isSame` when equal values are not identical objects. */
  constructor(private readonly isSame: (a: V, b: V) => boolean = Object.is) {}

  /** Records the current values of all keys. Keys that are missing are dropped. */
  record(observed: Iterable<readonly [K, V]>, now: number): void {
    const next = new Map<K, Seen<V>>()
    for (const [key, value] of observed) {
      const before = this.seen.get(key)
      next.set(key, before !== undefined && this.isSame(before.value, value) ? before : { value, since: now })
    }
    this.seen = next
  }

  /**
   * Returns the keys whose value has not changed for `millis`. `now` is the instant at which the last read was started,
   * not when it returned.
   */
  quietFor(millis: number, now: number): ReadonlyArray<readonly [K, V]> {
    const quiet: Array<readonly [K, V]> = []
    for (const [key, { since, value }] of this.seen) if (millis <= 0 || now - since >= millis) quiet.push([key, value])
    return quiet
  }

  /** Returns for how many milliseconds the value of a key has not changed: 0 if it was never seen. `now` as in `quietFor`. */
  unchangedFor(key: K, now: number): number {
    return now - (this.seen.get(key)?.since ?? now)
  }
}

/**
 * Returns one instance per clock. In a simulation the processes share the tables in memory, but each has its own clock
 * and must do its own watching.
 */
export const perClock = <A>(make: () => A): ((clock: Clock.Clock) => A) => {
  const made = new WeakMap<Clock.Clock, A>()
  return (clock) => {
    const known = made.get(clock)
    if (known !== undefined) return known
    const fresh = make()
    made.set(clock, fresh)
    return fresh
  }
}
