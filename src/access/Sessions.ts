import { Context, type Duration, type Effect, type Option, type Redacted, Schema } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"

/** The currently configured token of each role. */
export type RoleTokens = Readonly<Record<Role, Option.Option<Redacted.Redacted>>>

/** A login. */
export interface Session {
  readonly role: Role
  /** When the session expires unless it is used again, in epoch milliseconds. */
  readonly until: number
}

/** Browser logins: a session cookie instead of the token. */
export class Sessions extends Context.Tag("nightshift/access/Sessions")<
  Sessions,
  {
    /**
     * Opens a session for a caller that presented the role's token. Returns the secret once; only its hash is stored.
     */
    readonly begin: (
      role: Role,
      token: Redacted.Redacted,
      lasting: Duration.Duration
    ) => Effect.Effect<{ readonly secret: Redacted.Redacted; readonly until: number }, DatabaseError>

    /**
     * Returns the session of a secret if it has not expired and the role's token has not changed. Extends the session.
     */
    readonly find: (
      secret: string,
      tokens: RoleTokens,
      lasting: Duration.Duration
    ) => Effect.Effect<Option.Option<Session>, DatabaseError>

    /** Whether the session of a secret is still valid. Does not extend it. */
    readonly lasts: (secret: string, tokens: RoleTokens) => Effect.Effect<boolean, DatabaseError>

    /** Ends the session of a secret. */
    readonly end: (secret: string) => Effect.Effect<void, DatabaseError>

    /** Deletes expired sessions. Returns the number deleted. */
    readonly purge: Effect.Effect<number, DatabaseError>
  }
>() {}

/** `admin` may do everything; `viewer` may read everything. */
export const Role = Schema.Literal("admin", "viewer")
export type Role = typeof Role.Type
