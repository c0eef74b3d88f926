import type { HttpServerRequest } from "@effect/platform/HttpServerRequest"
import { Clock, Context, Effect, Option } from "effect"
import { type DatabaseError, DatabaseUnavailable, isContention } from "../../database/DatabaseError.js"
import { Transactions } from "../../queue/Transactions.js"
import * as Instant from "../Instant.js"
import { BadRequest, DeadlinePassed } from "../RequestErrors.js"

/** Until when the caller wants its change, in epoch milliseconds. A request may reach a process that was frozen. */
export class Deadline extends Context.Reference<Deadline>()("nightshift/http/Deadline", {
  defaultValue: (): number | undefined => undefined
}) {}

const header = "x-deadline"

/** Reads the deadline of a request. */
export const ofRequest = ({ headers }: HttpServerRequest): Effect.Effect<number | undefined, BadRequest> => {
  const given = headers[header]
  return given === undefined
    ? Effect.succeed(undefined)
    : Option.match(Instant.parse(given), {
        onNone: () => new BadRequest({ message: `X-Deadline must be ${Instant.expected}.`, field: header }),
        onSome: Effect.succeed
      })
}

/** Fails if the deadline has passed. */
export const check: Effect.Effect<void, DeadlinePassed> = Effect.gen(function* () {
  const deadline = yield* Deadline
  if (deadline === undefined) return
  const late = (yield* Clock.currentTimeMillis) - deadline
  if (late > 0) return yield* new DeadlinePassed({ seconds: Math.ceil(late / 1000) })
})

/** Whether the change was rolled back because of a concurrent one: a deadlock, a serialization failure or a lock timeout. */
const isTransient = (error: unknown): boolean =>
  isContention(error) || (error instanceof DatabaseUnavailable && error.sqlState === "55P03")

/** Runs a change in a transaction that is rolled back if the deadline passes before the commit. */
export const inTransaction = <A, E, R>(
  transactions: typeof Transactions.Service,
  change: Effect.Effect<A, E, R>
): Effect.Effect<A, E | DatabaseError | DeadlinePassed, R> =>
  Effect.retry(transactions.run(Effect.zipLeft(change, check)), { times: 2, while: isTransient })

/** Whether the connection was lost before the commit. The first use of a pooled connection may find it dead. */
const isLost = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable && error.connectionLost && error.nothingWritten

/**
 * Runs a change that has no audit entry. If the request has a deadline that passes before the commit, the change is
 * rolled back.
 */
export const rolledBackAfter = <A, E, R>(
  change: Effect.Effect<A, E, R>
): Effect.Effect<A, E | DatabaseError | DeadlinePassed, R | Transactions> =>
  Effect.gen(function* () {
    if ((yield* Deadline) === undefined) return yield* change
    const transactions = yield* Transactions
    return yield* Effect.retry(Effect.zipRight(check, inTransaction(transactions, change)), { times: 1, while: isLost })
  })
