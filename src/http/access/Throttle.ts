import { Clock, Effect } from "effect"
import * as TokenBucket from "../../core/TokenBucket.js"
import { TooManyRequests } from "../RequestErrors.js"

// In-memory token buckets for requests to this process. Unlike the cluster's rate limits for jobs, they do not use the
// database, because protecting it from load is their purpose.

export interface Throttle {
  /** Takes a token, or fails with the seconds until the next one. */
  readonly take: (key: string) => Effect.Effect<void, TooManyRequests>
  /** Fails if the bucket is empty. Takes no token. */
  readonly check: (key: string) => Effect.Effect<void, TooManyRequests>
  /** Returns a token. */
  readonly give: (key: string) => void
}

/** Maximum number of keys. The least recently used one is evicted. */
const maxKeys = 10_000

/** Makes a throttle with a bucket of `burst` tokens per key, refilled at `perSecond`. */
export const make = (options: { readonly burst: number; readonly perSecond: number }): Throttle => {
  const buckets = new RecentMap<TokenBucket.TokenBucket>(maxKeys)

  const bucketOf = (key: string) => {
    const bucket = buckets.get(key) ?? TokenBucket.make({ capacity: options.burst, refill: options.perSecond / 1000 })
    buckets.set(key, bucket)
    return bucket
  }

  const spend = (key: string, cost: number) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const bucket = bucketOf(key)
      const millis = bucket.wait(now)
      if (millis > 0) return new TooManyRequests({ seconds: Math.ceil(millis / 1000) })
      bucket.spend(cost, now)
      return Effect.void
    })

  return {
    take: (key) => spend(key, 1),
    check: (key) => spend(key, 0),
    give: (key) => buckets.get(key)?.give(1)
  }
}

/** A map of limited size that evicts the least recently set entry. */
export class RecentMap<A> extends Map<string, A> {
  constructor(private readonly maxEntries: number) {
    super()
  }

  override set(key: string, value: A): this {
    this.delete(key)
    if (this.size >= this.maxEntries) this.delete(this.keys().next().value ?? "")
    return super.set(key, value)
  }
}
