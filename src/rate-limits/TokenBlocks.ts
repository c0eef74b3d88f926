import { Clock, Duration, Effect } from "effect"
import type { Block, Taken, Taking } from "./Bucket.js"
import { BeyondCapacity, faultOfCount } from "./Limit.js"
import { Acquired, type AcquireError, type AcquireOptions } from "./RateLimits.js"

// Implements `acquire` for both layers of `RateLimits` on top of one primitive: take between `least` and `most` tokens.
// With `ahead`, the extra tokens are kept here as a block for later requests. The bucket counts a block against its
// capacity until it expires, so the cluster never has more tokens than the bucket holds.

const blockLife = Duration.seconds(1)

/** A block is abandoned this much early, because another pod's clock may be slightly ahead. */
const marginMillis = 50

/** Takes tokens from a bucket atomically. */
export type Take<E> = (scope: string, taking: Taking, now: number) => Effect.Effect<Taken, E>

export interface TokenBlocks<E> {
  readonly acquire: (
    scope: string,
    tokens?: number,
    options?: AcquireOptions
  ) => Effect.Effect<Acquired, E | AcquireError>
  /** Drops the reserved tokens, because the upstream refuses calls. */
  readonly forget: (scope: string) => Effect.Effect<void>
}

/** Maximum spread of the retry times of refused callers. */
const spreadMillis = Duration.toMillis("1 minute")

/**
 * Assigns retry times to refused callers. Each retry time is later than the previous one by the time that the caller's
 * tokens take to refill; beyond the spread, the times start over.
 */
const makeRetryTimes = () => {
  const last = new Map<string, number>()
  return (scope: string, earliest: number, gapMillis: number): number => {
    const next = Math.max(earliest, (last.get(scope) ?? Number.NEGATIVE_INFINITY) + gapMillis)
    const turn = next > earliest + spreadMillis ? earliest : next
    last.set(scope, turn)
    return turn
  }
}

/** A semaphore for each scope. */
export const semaphores = (permits: number): ((scope: string) => Effect.Semaphore) => {
  const known = new Map<string, Effect.Semaphore>()
  return (scope) => {
    const semaphore = known.get(scope) ?? Effect.unsafeMakeSemaphore(permits)
    known.set(scope, semaphore)
    return semaphore
  }
}

/** `holder` identifies this process's blocks. */
export const make = <E>(take: Take<E>, holder: string): TokenBlocks<E> => {
  const blocks = new Map<string, Block>()
  const lockFor = semaphores(1)
  const lifeMillis = Duration.toMillis(blockLife)
  const turnAfter = makeRetryTimes()

  const toAcquired = (scope: string, least: number, taken: Taken, now: number, inTurn: boolean) => {
    const { capacity, granted, rate, waitMillis } = taken
    if (granted > 0) return Effect.succeed(Acquired.Granted())
    if (least > capacity) return new BeyondCapacity({ scope, asked: least, capacity })
    const wait = inTurn ? turnAfter(scope, now + waitMillis, (least / rate) * 1000) - now : waitMillis
    // Round up, so that a caller that waits this long is not early. The epsilon ignores division noise.
    return Effect.succeed(Acquired.Throttled({ after: Duration.millis(Math.max(1, Math.ceil(wait - 1e-6))) }))
  }

  const usable = (scope: string, now: number): Block | undefined => {
    const block = blocks.get(scope)
    return block !== undefined && now < block.until - marginMillis && block.until - now <= lifeMillis
      ? block
      : undefined
  }

  const fromBlock = (scope: string, tokens: number, now: number): boolean => {
    const block = usable(scope, now)
    if (block === undefined || block.tokens < tokens) return false
    blocks.set(scope, { ...block, tokens: block.tokens - tokens })
    return true
  }

  const withBlock = (scope: string, tokens: number, ahead: number, inTurn: boolean) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (fromBlock(scope, tokens, now)) return Acquired.Granted()
      const rest = usable(scope, now)
      // Delete the block before the request: if the reply is lost the tokens are lost too, but never used twice.
      blocks.delete(scope)
      const taking = { least: tokens, most: tokens + ahead, holder, returned: rest?.tokens, lifeMillis }
      const taken = yield* take(scope, taking, now)
      if (taken.granted > tokens) blocks.set(scope, { tokens: taken.granted - tokens, until: now + lifeMillis })
      else if (taken.granted === 0 && rest !== undefined) blocks.set(scope, rest)
      return yield* toAcquired(scope, tokens, taken, now, inTurn)
    }).pipe(Effect.uninterruptible)

  return {
    forget: (scope) => Effect.sync(() => void blocks.delete(scope)),
    acquire: (scope, tokens = 1, { ahead = 0, inTurn = false } = {}) =>
      Effect.gen(function* () {
        const fault = faultOfCount(scope, "tokens", tokens, 1) ?? faultOfCount(scope, "ahead", ahead, 0)
        if (fault !== undefined) return yield* fault
        const now = yield* Clock.currentTimeMillis
        if (ahead === 0) {
          const taken = yield* take(scope, { least: tokens, most: tokens }, now)
          return yield* toAcquired(scope, tokens, taken, now, inTurn)
        }
        if (fromBlock(scope, tokens, now)) return Acquired.Granted()
        // One request at a time: the block that one request reserves also serves the callers that wait.
        return yield* lockFor(scope).withPermits(1)(withBlock(scope, tokens, ahead, inTurn))
      })
  }
}
