import { Duration, Effect } from "effect"

const interval = Duration.toMillis("10 seconds")

/** Beyond this many keys, all intervals are reset. */
const maxKeys = 1_000

interface Logged {
  readonly at: number
  omitted: number
}

/** Logs an event at most once per key in ten seconds. The next line says how many lines were omitted. */
export class RepeatedLines {
  private readonly keys = new Map<string, Logged>()

  /** `more` says how many lines were omitted; empty if none were. `now` is in epoch milliseconds. */
  line(key: string, now: number, log: (more: string) => Effect.Effect<void>): Effect.Effect<void> {
    const last = this.keys.get(key)
    // A clock that was set back starts a new interval.
    if (last !== undefined && now >= last.at && now - last.at < interval) {
      last.omitted += 1
      return Effect.void
    }
    if (this.keys.size >= maxKeys) this.keys.clear()
    this.keys.set(key, { at: now, omitted: 0 })
    return log(last === undefined || last.omitted === 0 ? "" : `, and ${last.omitted} more since the last line`)
  }
}
