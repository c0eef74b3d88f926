import { Context, Effect, Schema } from "effect"
import { Role } from "../../access/Sessions.js"
import type { DatabaseError } from "../../database/DatabaseError.js"

/** The caller of a request. Provided to every route after authentication. */
export class Caller extends Context.Reference<Caller>()("nightshift/http/Caller", {
  defaultValue: (): CallerFacts => ({
    who: "nobody",
    role: "viewer",
    until: undefined,
    session: undefined,
    reason: undefined
  })
}) {}

/** `worker` may only use the routes for remote workers. */
export const CallerRole = Schema.Literal(...Role.literals, "worker")
export type CallerRole = typeof CallerRole.Type

export interface CallerFacts {
  /** The name in the audit log: how the caller connected and its role or name, such as `api:admin`. */
  readonly who: string
  readonly role: CallerRole
  /** Whether a program acts for a language model, which sees no more than a viewer. */
  readonly isAgent?: boolean
  /** The queues that a worker is restricted to. Undefined for all queues. */
  readonly queues?: ReadonlyArray<string> | undefined
  /** When the login expires, in epoch milliseconds; undefined for a token. */
  readonly until: number | undefined
  /** The login; undefined for a token. */
  readonly session: CallerSession | undefined
  /** The reason given by the caller, for the audit log. */
  readonly reason: string | undefined
  /** Whether the service of another cell sent the request for the caller. */
  readonly forwarded?: boolean
}

export interface CallerSession {
  readonly secret: string
  /** Whether the login is still valid. */
  readonly lasts: Effect.Effect<boolean, DatabaseError>
}

/** Whether hidden fields are shown to the caller. */
export const seesAll = ({ isAgent, role }: CallerFacts): boolean => role === "admin" && isAgent !== true

/** Sets the reason, for requests that give it in their body. */
export const withReason =
  (reason: string | undefined) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    reason === undefined
      ? effect
      : Effect.flatMap(Caller, (caller) => Effect.provideService(effect, Caller, { ...caller, reason }))
