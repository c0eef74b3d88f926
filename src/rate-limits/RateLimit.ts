import { Clock, Duration, Effect } from "effect"
import { type DurationInput, decode } from "../core/DurationText.js"
import * as Outcome from "../core/Outcome.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { InvalidLimit, UnknownScope } from "./Limit.js"
import type { DeclaredRateLimit, RateLimitOptions, TakeOptions } from "./LimitOptions.js"
import { type AcquireError, RateLimits } from "./RateLimits.js"

export type { RateLimitOptions, TakeOptions }

/**
 * Why no token was granted. `Throttled` is an outcome: the job is retried when a token may be available and keeps its
 * attempt.
 */
export type RateLimitError = Outcome.Throttled | AcquireError | DatabaseError

/** A rate limit that handlers share across the cluster. */
export interface RateLimit extends DeclaredRateLimit {
  /** Takes one token. If none is available, ends the attempt as throttled until a token may be available. */
  readonly acquire: Effect.Effect<void, RateLimitError, RateLimits>
  /** Takes several tokens at once, and waits up to `timeout` for them. */
  readonly take: (tokens: number, options?: TakeOptions) => Effect.Effect<void, RateLimitError, RateLimits>
  /**
   * Call when the upstream answers 429: no process gets a token for this long, or until new tokens are added. Does not
   * end the attempt.
   */
  readonly drain: (
    duration?: DurationInput
  ) => Effect.Effect<void, UnknownScope | InvalidLimit | DatabaseError, RateLimits>
  /** Like `drain`, and ends this attempt as throttled until a token may be available. */
  readonly refused: (duration?: DurationInput) => Effect.Effect<never, RateLimitError, RateLimits>
}

const perSecond = (rate: RateLimitOptions["rate"]): number =>
  typeof rate === "number" ? rate : rate.tokens / Duration.toSeconds(decode(rate.per))

/**
 * Declares a limit. Pass it to `Nightshift.layer({ limits: [...] })` to register it with the cluster.
 *
 * @example
 * ```ts
 * import { RateLimit } from "nightshift"
 *
 * export const github = RateLimit.make("github", { capacity: 100, rate: { tokens: 5000, per: "1h" } })
 * ```
 */
export const make = (scope: string, options: RateLimitOptions): RateLimit => {
  const rate = perSecond(options.rate)
  const { ahead = 0, capacity, throttles = "job" } = options
  const throttled = (after: Duration.Duration) => Effect.fail(Outcome.throttled({ after, scope: throttles, by: scope }))

  const take = (tokens: number, { timeout = Duration.zero }: TakeOptions = {}) =>
    Effect.gen(function* () {
      const limits = yield* RateLimits
      const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(decode(timeout))
      for (;;) {
        const answer = yield* limits.acquire(scope, tokens, { ahead, inTurn: true })
        if (answer._tag === "Granted") return
        const now = yield* Clock.currentTimeMillis
        if (now + Duration.toMillis(answer.after) > until) return yield* throttled(answer.after)
        yield* Effect.sleep(answer.after)
      }
    })

  const drain = (duration?: DurationInput) =>
    Effect.flatMap(RateLimits, (limits) => limits.drain(scope, decode(duration ?? Duration.zero)))

  return {
    scope,
    capacity,
    rate,
    ahead,
    throttles,
    take,
    acquire: take(1),
    drain: (duration) => Effect.asVoid(drain(duration)),
    refused: (duration) =>
      Effect.flatMap(drain(duration), (state) =>
        throttled(Duration.sum(decode(duration ?? 0), Duration.millis(Math.ceil(1000 / state.rate))))
      )
  }
}
