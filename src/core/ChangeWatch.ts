import { type Clock, Effect } from "effect"

// Whether others live is judged by whether what they write changes, timed by the one who looks. Instants that two machines
// wrote are never compared: a clock that is set, or a failover to a server with another one, would kill the living.

/** This process's steady clock in milliseconds: it only measures spans, and no adjustment of any clock moves it. */
export const steadyMillis = (clock: Clock.Clock): number => Number(clock.unsafeCurrentTimeNanos()) / 1e6

/** The same as an effect. */
export const steadyNow: Effect.Effect<number> = Effect.clockWith((clock) => Effect.sync(() => steadyMillis(clock)))

interface Seen<V> {
  readonly value: V
  /** When it was first seen, on the steady clock. */
  readonly since: number
}

/** Remembers what each key showed and since when it has shown the same. */
export class ChangeWatch<K, V> {
  private seen = new Map<K, Seen<V>>()

  /** `isSame` where two equal values are not one. */
  constructor(private readonly isSame: (a: V, b: V) => boolean = Object.is) {}

  /** What all keys show now. Those that are not named are forgotten. */
  look(shown: Iterable<readonly [K, V]>, now: number): void {
    const next = new Map<K, Seen<V>>()
    for (const [key, value] of shown) {
      const before = this.seen.get(key)
      next.set(key, before !== undefined && this.isSame(before.value, value) ? before : { value, since: now })
    }
    this.seen = next
  }

  /** What has shown the same for this long, in milliseconds. `now` is when the last look was asked for, not answered. */
  quietFor(millis: number, now: number): ReadonlyArray<readonly [K, V]> {
    const quiet: Array<readonly [K, V]> = []
    for (const [key, { since, value }] of this.seen) if (millis <= 0 || now - since >= millis) quiet.push([key, value])
    return quiet
  }
}

/** One of something for each clock: tables in memory are shared by processes of a simulation, what they watch is not. */
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
