import { Context, Data, Duration, type Effect, type Option } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"

/** Number of wrong codes before a user is locked out, and for how long. */
export const guessLimit = { failures: 5, window: Duration.minutes(15) } as const

/** Whether a code may be checked. */
export type Guess = Data.TaggedEnum<{
  Allowed: {
    /** Attempts left before the lockout. */
    readonly left: number
  }
  /** Too many wrong codes. */
  Locked: {
    /** Epoch milliseconds. */
    readonly until: number
  }
}>
export const Guess = Data.taggedEnum<Guess>()

/** Sign-ins by `/auth`, keyed by Telegram user id. One sign-in is valid for all bots. */
export class AuthSessions extends Context.Tag("nightshift/gateway/AuthSessions")<
  AuthSessions,
  {
    /** Signs a user in for `ttl` and resets their count of wrong codes. */
    readonly open: (user: number, ttl: Duration.Duration) => Effect.Effect<void, DatabaseError>

    /** Returns when the sign-in expires, in epoch milliseconds, or none if the user is not signed in. */
    readonly find: (user: number) => Effect.Effect<Option.Option<number>, DatabaseError>

    /** Signs a user out. Returns false if they were not signed in. */
    readonly close: (user: number) => Effect.Effect<boolean, DatabaseError>

    /** Counts an attempt before the code is checked, so concurrent attempts cannot exceed the limit. */
    readonly guess: (user: number) => Effect.Effect<Guess, DatabaseError>

    /** Deletes expired sign-ins and expired counts of wrong codes. */
    readonly sweep: Effect.Effect<{ readonly sessions: number; readonly guesses: number }, DatabaseError>
  }
>() {}
