import { Context, type Data, type Duration, type Effect } from "effect"
import * as Tagged from "../core/Tagged.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { BeyondCapacity, DeclaredLimit, InvalidLimit, LimitPatch, LimitState, UnknownScope } from "./Limit.js"

/** What became of a wish for tokens. */
export type Acquired = Data.TaggedEnum<{
  Granted: {}
  /** Not now: nothing was taken. So many tokens may be there after this, if nobody else takes them. */
  Throttled: { readonly after: Duration.Duration }
}>
export const Acquired = Tagged.taggedEnum<Acquired>({ Granted: true, Throttled: true })

/** Nothing can be said about the wish: it is not one that a bucket could grant. */
export type AcquireError = UnknownScope | BeyondCapacity | InvalidLimit

export interface AcquireOptions {
  /**
   * How many tokens this process may take besides, for those who ask next: they are granted without a question to the
   * database. What is not used within a second is lost. Taken ahead or not, never more than the bucket allows. [0]
   */
  readonly ahead?: number | undefined
  /**
   * Tells those whom this process sends away to come one after another, as tokens come in, within a minute: a crowd that
   * is told the same instant comes back as a crowd. [false]
   */
  readonly inTurn?: boolean | undefined
}

/** Token buckets that the whole cluster shares. */
export class RateLimits extends Context.Tag("nightshift/limits/RateLimits")<
  RateLimits,
  {
    /** Declares scopes; a new one begins full. The latest declaration stands, but never against an operator's word. */
    readonly register: (limits: ReadonlyArray<DeclaredLimit>) => Effect.Effect<void, InvalidLimit | DatabaseError>

    /**
     * Takes tokens, all or none, and never waits for them. Stands by itself: a transaction around it neither holds others
     * up nor gives the tokens back.
     */
    readonly acquire: (
      scope: string,
      tokens?: number,
      options?: AcquireOptions
    ) => Effect.Effect<Acquired, AcquireError | DatabaseError>

    /** Empties a bucket because the upstream said so, and keeps it empty for so long if it said how long. */
    readonly drain: (
      scope: string,
      duration?: Duration.Duration
    ) => Effect.Effect<LimitState, UnknownScope | InvalidLimit | DatabaseError>

    /** An operator's word on a scope, all or nothing. */
    readonly tune: (
      scope: string,
      patch: LimitPatch
    ) => Effect.Effect<
      { readonly before: LimitState; readonly after: LimitState },
      UnknownScope | InvalidLimit | DatabaseError
    >

    readonly get: (scope: string) => Effect.Effect<LimitState, UnknownScope | DatabaseError>

    /** Every scope, by name. */
    readonly all: Effect.Effect<ReadonlyArray<LimitState>, DatabaseError>
  }
>() {}
