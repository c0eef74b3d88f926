import { Context, type Duration, type Effect, type Option, type Redacted } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Role } from "./Role.js"

/** The tokens that open the doors now. */
export type RoleTokens = Readonly<Record<Role, Option.Option<Redacted.Redacted>>>

/** Somebody who is logged in. */
export interface Session {
  readonly role: Role
  /** When it ends unless it is used again; epoch milliseconds. */
  readonly until: number
}

/** Logins, for browsers, which cannot keep a token. */
export class Sessions extends Context.Tag("nightshift/access/Sessions")<
  Sessions,
  {
    /** Opens a session for whoever showed the role's token. The secret is given out once and stored nowhere. */
    readonly begin: (
      role: Role,
      token: Redacted.Redacted,
      lasting: Duration.Duration
    ) => Effect.Effect<{ readonly secret: Redacted.Redacted; readonly until: number }, DatabaseError>

    /** The session of a secret, while it lasts and its token is still the one of its role. Being used, it lasts anew. */
    readonly find: (
      secret: string,
      tokens: RoleTokens,
      lasting: Duration.Duration
    ) => Effect.Effect<Option.Option<Session>, DatabaseError>

    /** Whether the session of a secret still lasts. Asking does not make it last longer. */
    readonly lasts: (secret: string, tokens: RoleTokens) => Effect.Effect<boolean, DatabaseError>

    /** The session of a secret is over. */
    readonly end: (secret: string) => Effect.Effect<void, DatabaseError>

    /** Forgets sessions that are over. Returns how many. */
    readonly purge: Effect.Effect<number, DatabaseError>
  }
>() {}
