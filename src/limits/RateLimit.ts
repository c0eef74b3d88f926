import { Clock, Duration, Effect } from "effect"
import * as Outcome from "../core/Outcome.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { DeclaredLimit, InvalidLimit, UnknownScope } from "./Limit.js"
import { type AcquireError, RateLimits } from "./RateLimits.js"

export interface RateLimitOptions {
  /** How many tokens the bucket holds: the burst that an upstream bears. */
  readonly capacity: number
  /** How many come in: per second, or `{ tokens: 5000, per: "1 hour" }`. */
  readonly rate: number | { readonly tokens: number; readonly per: Duration.DurationInput }
  /** How many tokens a process may take besides, for its next calls. What it does not use in a second is lost. [0] */
  readonly ahead?: number
  /** What pauses when the bucket is empty. [job] */
  readonly throttles?: "queue" | "key" | "job"
}

export interface TakeOptions {
  /** How long to wait for the tokens before giving the attempt back. [not at all] */
  readonly patience?: Duration.DurationInput
}

/** Why a handler does not go on. `Throttled` is an outcome: the job comes back when its turn may be, with its attempt. */
export type RateLimitError = Outcome.Throttled | AcquireError | DatabaseError

/** A limit that handlers keep to, wherever they run. */
export interface RateLimit extends DeclaredLimit {
  /** Goes on with one token; where there is none, ends the attempt as throttled for as long as it takes. */
  readonly acquire: Effect.Effect<void, RateLimitError, RateLimits>
  /** The same for several at once, with patience if there is any. */
  readonly take: (tokens: number, options?: TakeOptions) => Effect.Effect<void, RateLimitError, RateLimits>
  /** The upstream said no (429): nobody gets a token for so long, or until new ones come in. Go on as you like. */
  readonly drain: (
    duration?: Duration.DurationInput
  ) => Effect.Effect<void, UnknownScope | InvalidLimit | DatabaseError, RateLimits>
  /** The same, and ends this attempt as throttled until a token can be had. */
  readonly refused: (duration?: Duration.DurationInput) => Effect.Effect<never, RateLimitError, RateLimits>
}

const perSecond = (rate: RateLimitOptions["rate"]): number =>
  typeof rate === "number" ? rate : rate.tokens / Duration.toSeconds(rate.per)

/** Declares a limit. Give it to `Nightshift.layer({ limits: [...] })`, so that the cluster knows it. */
export const make = (scope: string, options: RateLimitOptions): RateLimit => {
  const rate = perSecond(options.rate)
  const { ahead = 0, capacity, throttles = "job" } = options
  const throttled = (after: Duration.Duration) => Effect.fail(Outcome.throttled({ after, scope: throttles, by: scope }))

  const take = (tokens: number, { patience = Duration.zero }: TakeOptions = {}) =>
    Effect.gen(function* () {
      const limits = yield* RateLimits
      const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(patience)
      for (;;) {
        const answer = yield* limits.acquire(scope, tokens, { ahead, inTurn: true })
        if (answer._tag === "Granted") return
        const now = yield* Clock.currentTimeMillis
        if (now + Duration.toMillis(answer.after) > until) return yield* throttled(answer.after)
        yield* Effect.sleep(answer.after)
      }
    })

  const drain = (duration?: Duration.DurationInput) =>
    Effect.flatMap(RateLimits, (limits) => limits.drain(scope, Duration.decode(duration ?? Duration.zero)))

  return {
    scope,
    capacity,
    rate,
    take,
    acquire: take(1),
    drain: (duration) => Effect.asVoid(drain(duration)),
    refused: (duration) =>
      Effect.flatMap(drain(duration), (state) =>
        throttled(Duration.sum(Duration.decode(duration ?? 0), Duration.millis(Math.ceil(1000 / state.rate))))
      )
  }
}
