import { Effect } from "effect"
import { Audit } from "../../access/Audit.js"
import { type DatabaseError, DatabaseUnavailable } from "../../database/DatabaseError.js"
import { Transactions } from "../../queue/Transactions.js"
import type { DeadlinePassed } from "../RequestErrors.js"
import { Caller } from "./Caller.js"
import * as Deadline from "./Deadline.js"

/** State before and after a change, as stored in the audit log. */
export interface Seen {
  /** The id of the entry, if the change has one. */
  readonly id?: string
  readonly before?: unknown
  readonly after?: unknown
}

/**
 * Runs a change and stores an audit entry in the same transaction. `target` and `seen` may depend on the result:
 *
 * queues.change(name, patch).pipe(audited("queue.change", name, ({ after, before }) => ({ after, before })))
 */
export type Audited = <A>(
  act: string,
  target: string | ((result: A) => string),
  seen?: (result: A) => Seen
) => <E, R>(change: Effect.Effect<A, E, R>) => Effect.Effect<A, E | DatabaseError | DeadlinePassed, R>

/**
 * Reads what the response to a committed change shows. If the read fails, the error must not say that nothing was
 * changed: the caller would repeat the change.
 */
export const afterCommit = <A, E, R>(read: Effect.Effect<A, E, R>): Effect.Effect<A, E | DatabaseUnavailable, R> =>
  Effect.mapError(read, (error) =>
    error instanceof DatabaseUnavailable ? new DatabaseUnavailable({ ...error, nothingWritten: false }) : error
  )

/** For routes and commands that make changes for an operator. */
export const make: Effect.Effect<Audited, never, Audit | Transactions> = Effect.gen(function* () {
  const audit = yield* Audit
  const transactions = yield* Transactions
  return <A>(act: string, target: string | ((result: A) => string), seen: (result: A) => Seen = () => ({})) =>
    <E, R>(change: Effect.Effect<A, E, R>): Effect.Effect<A, E | DatabaseError | DeadlinePassed, R> =>
      Deadline.inTransaction(
        transactions,
        Effect.gen(function* () {
          const { reason, who } = yield* Caller
          const result = yield* change
          const named = typeof target === "string" ? target : target(result)
          yield* audit.record({ who, act, target: named, reason, ...seen(result) })
          return result
        })
      )
})
