import { Clock, Effect } from "effect"
import { TooManyRequests } from "../RequestErrors.js"

// Buckets of tokens in memory, for requests to this process. Not the limits that jobs share across the cluster: a door that
// asked the database before each request would be the load that it is to keep away.

interface Bucket {
  tokens: number
  at: number
}

export interface Throttle {
  /** Takes one, or says when there will be one. */
  readonly take: (key: string) => Effect.Effect<void, TooManyRequests>
  /** Fails when there is none, and takes none. */
  readonly check: (key: string) => Effect.Effect<void, TooManyRequests>
  /** Puts one back that was taken for nothing. */
  readonly give: (key: string) => void
}

/** Beyond this many keys the one that was used least recently is forgotten: memory stays bounded. */
const mostKeys = 10_000

/** So many at once, and so many a second from then on. */
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
