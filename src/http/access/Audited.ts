import { Effect } from "effect"
import { Audit } from "../../access/Audit.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Transactions } from "../../queue/Transactions.js"
import { Caller } from "./Caller.js"

/** What is worth keeping of how something was and how it became. */
export interface Seen {
  readonly before?: unknown
  readonly after?: unknown
}

/**
 * Makes a change and writes down who made it and why, both or neither. `target` and `seen` may depend on what came of it:
 *
 *     queues.change(name, patch).pipe(audited("queue.change", name, ({ after, before }) => ({ after, before })))
 */
export type Audited = <A>(
  act: string,
  target: string | ((result: A) => string),
  seen?: (result: A) => Seen
) => <E, R>(change: Effect.Effect<A, E, R>) => Effect.Effect<A, E | DatabaseError, R>

/** For routes and commands that change something on an operator's behalf. */
export const make: Effect.Effect<Audited, never, Audit | Transactions> = Effect.gen(function* () {
  const audit = yield* Audit
  const transactions = yield* Transactions
  return <A>(act: string, target: string | ((result: A) => string), seen: (result: A) => Seen = () => ({})) =>
    <E, R>(change: Effect.Effect<A, E, R>): Effect.Effect<A, E | DatabaseError, R> =>
      transactions.run(
        Effect.gen(function* () {
          const { reason, who } = yield* Caller
          const result = yield* change
          const named = typeof target === "string" ? target : target(result)
          yield* audit.record({ who, act, target: named, reason, ...seen(result) })
          return result
        })
      )
})
