import type { Limit, LimitPatch, LimitState } from "./Limit.js"

// Token bucket arithmetic. `LimitSql.take` is the same arithmetic in SQL; the laws test both. Tokens and times are
// floating point, so comparisons allow an epsilon: a caller that waited exactly the time it was given must not be
// refused because of a rounding error.

export const epsilon = 1e-9

/**
 * Tokens that a pod reserved in advance. They count against the capacity, as if still in the bucket, until they are
 * used or expire.
 */
export interface Block {
  readonly tokens: number
  /** Epoch milliseconds. */
  readonly until: number
}

export interface Bucket {
  readonly scope: string
  readonly declared: Limit
  readonly tuned: { readonly capacity: number | undefined; readonly rate: number | undefined }
  readonly tokens: number
  /** Time of the last refill, in epoch milliseconds. If it is in the future, no tokens are added before it. */
  readonly refilledAt: number
  readonly blocks: Readonly<Record<string, Block>>
}

/** A request for at least `least` tokens, or none, and up to `most` if available. */
export interface Taking {
  readonly least: number
  readonly most: number
  /**
   * Holder of a block with the tokens beyond `least`, which replaces its previous block. Only named holders can reserve
   * tokens.
   */
  readonly holder?: string | undefined
  /** Unused tokens of the holder's previous block. */
  readonly returned?: number | undefined
  readonly lifeMillis?: number | undefined
}

export interface Taken {
  readonly granted: number
  readonly capacity: number
  readonly rate: number
  /** Time until `least` tokens may be available; 0 if granted. */
  readonly waitMillis: number
}

export const capacityOf = ({ declared, tuned }: Bucket): number => tuned.capacity ?? declared.capacity
export const rateOf = ({ declared, tuned }: Bucket): number => tuned.rate ?? declared.rate

export const fresh = (scope: string, declared: Limit, now: number): Bucket => ({
  scope,
  declared,
  tuned: { capacity: undefined, rate: undefined },
  tokens: declared.capacity,
  refilledAt: now,
  blocks: {}
})

const lentBy = ({ blocks }: Bucket, now: number, holder?: string) =>
  Object.entries(blocks).filter(([name, { until }]) => name !== holder && until > now)

const sum = (blocks: ReadonlyArray<readonly [string, Block]>) =>
  blocks.reduce((total, [, { tokens }]) => total + tokens, 0)

/** A clock that is set back neither adds nor removes tokens. */
const refilled = (bucket: Bucket, now: number, lent: number, returned = 0): number =>
  Math.max(
    0,
    Math.min(
      capacityOf(bucket) - lent,
      bucket.tokens + returned + (Math.max(0, now - bucket.refilledAt) / 1000) * rateOf(bucket)
    )
  )

const refilledTo = (bucket: Bucket, now: number): Bucket => ({
  ...bucket,
  tokens: refilled(bucket, now, sum(lentBy(bucket, now))),
  refilledAt: Math.max(bucket.refilledAt, now)
})

export const take = (bucket: Bucket, taking: Taking, now: number): readonly [Taken, Bucket] => {
  const { holder, least, lifeMillis = 0, most, returned = 0 } = taking
  const others = lentBy(bucket, now, holder)
  const lent = sum(others)
  const own = holder === undefined ? undefined : bucket.blocks[holder]
  const available = refilled(
    bucket,
    now,
    lent,
    own !== undefined && own.until > now ? Math.min(returned, own.tokens) : 0
  )
  const capacity = capacityOf(bucket)
  const rate = rateOf(bucket)
  if (available + epsilon < least) {
    const refill = Math.max(0, bucket.refilledAt - now) + ((least - available) / rate) * 1000
    const expiry = least > capacity - lent ? Math.max(...others.map(([, { until }]) => until - now), 0) : 0
    return [{ granted: 0, capacity, rate, waitMillis: Math.max(refill, expiry) }, bucket]
  }
  const granted = Math.floor(Math.min(most, available + epsilon))
  const block = { tokens: granted - least, until: now + lifeMillis }
  return [
    { granted, capacity, rate, waitMillis: 0 },
    {
      ...bucket,
      tokens: Math.max(0, available - granted),
      refilledAt: Math.max(bucket.refilledAt, now),
      blocks: Object.fromEntries(holder !== undefined && block.tokens > 0 ? [...others, [holder, block]] : others)
    }
  ]
}

/** Empties the bucket and stops the refill for this long. A shorter pause does not shorten a longer one. */
export const drain = (bucket: Bucket, forMillis: number, now: number): Bucket => ({
  ...bucket,
  tokens: 0,
  refilledAt: Math.max(bucket.refilledAt, now + forMillis)
})

/** Changes the limit. Tokens up to now are refilled at the old rate. */
const changed = (bucket: Bucket, now: number, change: Partial<Bucket>): Bucket => {
  const next = { ...refilledTo(bucket, now), ...change }
  return { ...next, tokens: Math.min(next.tokens, capacityOf(next)) }
}

export const redeclare = (bucket: Bucket, declared: Limit, now: number): Bucket =>
  declared.capacity === bucket.declared.capacity && declared.rate === bucket.declared.rate
    ? bucket
    : changed(bucket, now, { declared })

export const tune = (bucket: Bucket, { capacity, rate }: LimitPatch, now: number): Bucket => {
  const override = (given: number | null | undefined, current: number | undefined) =>
    given === undefined ? current : (given ?? undefined)
  return changed(bucket, now, {
    tuned: { capacity: override(capacity, bucket.tuned.capacity), rate: override(rate, bucket.tuned.rate) }
  })
}

export const stateOf = (bucket: Bucket, now: number): LimitState => ({
  scope: bucket.scope,
  capacity: capacityOf(bucket),
  rate: rateOf(bucket),
  declared: bucket.declared,
  tuned: bucket.tuned.capacity !== undefined || bucket.tuned.rate !== undefined,
  tokens: refilled(bucket, now, sum(lentBy(bucket, now))),
  lent: sum(lentBy(bucket, now)),
  dryUntil: bucket.refilledAt > now ? bucket.refilledAt : undefined
})
