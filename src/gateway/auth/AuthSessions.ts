import { Context, Data, Duration, type Effect, type Option } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"

/** How often a user may guess before they must wait, and for how long. */
export const guessLimit = { failures: 5, window: Duration.minutes(15) } as const

/** Whether a guess may be looked at. */
export type Guess = Data.TaggedEnum<{
  Allowed: {
    /** How many more there are before the user must wait. */
    readonly left: number
  }
  /** Too many were wrong. */
  Locked: {
    /** Epoch milliseconds. */
    readonly until: number
  }
}>
export const Guess = Data.taggedEnum<Guess>()

/** Who has signed in by `/auth`, by Telegram user id: one sign-in counts for all bots. */
export class AuthSessions extends Context.Tag("nightshift/gateway/AuthSessions")<
  AuthSessions,
  {
    /** Signs a user in for so long from now, and forgets their wrong guesses. */
    readonly open: (user: number, ttl: Duration.Duration) => Effect.Effect<void, DatabaseError>

    /** When the user's sign-in ends, in epoch milliseconds; nothing when they are not signed in. */
    readonly find: (user: number) => Effect.Effect<Option.Option<number>, DatabaseError>

    /** Signs a user out; false when they were not signed in. */
    readonly close: (user: number) => Effect.Effect<boolean, DatabaseError>

    /** Counts a guess as wrong before anyone looks at it: a thousand at once are still five. */
    readonly guess: (user: number) => Effect.Effect<Guess, DatabaseError>

    /** Forgets what has no effect any more. */
    readonly sweep: Effect.Effect<{ readonly sessions: number; readonly guesses: number }, DatabaseError>
  }
>() {}
