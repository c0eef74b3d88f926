import { Context, type Data, type Duration, type Effect } from "effect"
import * as Tagged from "../core/Tagged.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { BeyondCapacity, DeclaredLimit, InvalidLimit, LimitPatch, LimitState, UnknownScope } from "./Limit.js"

/** Result of a request for tokens. */
export type Acquired = Data.TaggedEnum<{
  Granted: {}
  /** Nothing was taken. The tokens may be available after this delay if no other process takes them first. */
  Throttled: { readonly after: Duration.Duration }
}>
export const Acquired = Tagged.taggedEnum<Acquired>({ Granted: true, Throttled: true })

/** The request is invalid: no bucket could grant it. */
export type AcquireError = UnknownScope | BeyondCapacity | InvalidLimit

export interface AcquireOptions {
  /**
   * Extra tokens that this process may reserve for later requests, which are then granted without a database round
   * trip. Tokens not used within a second are lost. The cluster never gets more than the bucket allows. [0]
   */
  readonly ahead?: number | undefined
  /**
   * Spreads the retry times of refused callers over up to a minute, as tokens are added. Callers that get the same
   * retry time would all return at once. [false]
   */
  readonly inTurn?: boolean | undefined
}

/** Token buckets shared by the whole cluster. */
export class RateLimits extends Context.Tag("nightshift/rate-limits/RateLimits")<
  RateLimits,
  {
    /**
     * Declares scopes; a new bucket starts full. The latest declaration wins, but never overrides an operator's
     * setting.
     */
    readonly register: (limits: ReadonlyArray<DeclaredLimit>) => Effect.Effect<void, InvalidLimit | DatabaseError>

    /**
     * Takes all tokens or none; never waits. Runs outside the caller's transaction: that transaction neither blocks
     * other processes nor returns the tokens when it rolls back.
     */
    readonly acquire: (
      scope: string,
      tokens?: number,
      options?: AcquireOptions
    ) => Effect.Effect<Acquired, AcquireError | DatabaseError>

    /** Empties a bucket because the upstream refused a call, and keeps it empty for the duration, if given. */
    readonly drain: (
      scope: string,
      duration?: Duration.Duration
    ) => Effect.Effect<LimitState, UnknownScope | InvalidLimit | DatabaseError>

    /** Changes a limit on behalf of an operator, all or nothing. */
    readonly tune: (
      scope: string,
      patch: LimitPatch
    ) => Effect.Effect<
      {
        /** Capacity, rate and tokens before the change. */
        readonly before: LimitState
        /** Capacity, rate and tokens after the change. */
        readonly after: LimitState
      },
      UnknownScope | InvalidLimit | DatabaseError
    >

    /** Returns a limit and its tokens. Fails with UnknownScope. */
    readonly get: (scope: string) => Effect.Effect<LimitState, UnknownScope | DatabaseError>

    /** All declared limits and their tokens, by name. */
    readonly all: Effect.Effect<ReadonlyArray<LimitState>, DatabaseError>
  }
>() {}
