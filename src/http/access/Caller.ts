import { Context, Effect } from "effect"
import type { Role } from "../../access/Role.js"
import type { DatabaseError } from "../../database/DatabaseError.js"

/** Whoever asks, as far as is known. Provided to every route once they were let in. */
export class Caller extends Context.Reference<Caller>()("nightshift/http/Caller", {
  defaultValue: (): CallerFacts => ({
    who: "nobody",
    role: "viewer",
    until: undefined,
    session: undefined,
    reason: undefined
  })
}) {}

export interface CallerFacts {
  /** How they stand in the audit: the way they came by and their role or name, as in `api:admin`. */
  readonly who: string
  readonly role: Role
  /** When their login ends, where they came by one; epoch milliseconds. */
  readonly until: number | undefined
  /** Their login, where they came by one. */
  readonly session: CallerSession | undefined
  /** Why they do what they do, if they say. */
  readonly reason: string | undefined
}

export interface CallerSession {
  readonly secret: string
  /** Whether it is neither ended nor expired. */
  readonly lasts: Effect.Effect<boolean, DatabaseError>
}

/** For requests that say in their body why they come. */
export const withReason =
  (reason: string | undefined) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    reason === undefined
      ? effect
      : Effect.flatMap(Caller, (caller) => Effect.provideService(effect, Caller, { ...caller, reason }))
