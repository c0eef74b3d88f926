import { Clock, Effect } from "effect"
import { TooManyRequests } from "../RequestErrors.js"

// In-memory token buckets for requests to this process. Unlike the cluster's rate limits for jobs, they do not use the
// database, because protecting it from load is their purpose.

interface Bucket {
  tokens: number
  at: number
}

export interface Throttle {
  /** Takes a token, or fails with the seconds until the next one. */
  readonly take: (key: string) => Effect.Effect<void, TooManyRequests>
  /** Fails if the bucket is empty. Takes no token. */
  readonly check: (key: string) => Effect.Effect<void, TooManyRequests>
  /** Returns a token. */
  readonly give: (key: string) => void
}

/** Maximum number of keys. The least recently used one is evicted. */
const mostKeys = 10_000

/** Makes a throttle with a bucket of `burst` tokens per key, refilled at `perSecond`. */
export const make = (options: { readonly burst: number; readonly perSecond: number }): Throttle => {
  const buckets = new Map<string, Bucket>()

  const bucketOf = (key: string, now: number): Bucket => {
    const known = buckets.get(key)
    buckets.delete(key)
    if (known !== undefined) {
      buckets.set(key, known)
      const since = Math.max(0, now - known.at) / 1000
      known.tokens = Math.min(options.burst, known.tokens + since * options.perSecond)
      known.at = now
      return known
    }
    if (buckets.size >= mostKeys) buckets.delete(buckets.keys().next().value ?? "")
    const fresh = { tokens: options.burst, at: now }
    buckets.set(key, fresh)
    return fresh
  }

  const spend = (key: string, cost: number) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const bucket = bucketOf(key, now)
      if (bucket.tokens < 1) {
        return new TooManyRequests({ seconds: Math.max(1, Math.ceil((1 - bucket.tokens) / options.perSecond)) })
      }
      bucket.tokens -= cost
      return Effect.void
    })

  const give = (key: string) => {
    const bucket = buckets.get(key)
    if (bucket !== undefined) bucket.tokens = Math.min(options.burst, bucket.tokens + 1)
  }

  return { take: (key) => spend(key, 1), check: (key) => spend(key, 0), give }
}
