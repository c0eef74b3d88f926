import { TransactionConnection } from "@effect/sql/SqlClient"
import { Effect, Option, Predicate } from "effect"
import type pg from "pg"
import { TransactionError } from "./ShiftErrors.js"

/** What the context of a handler or a step in a transaction has in addition. */
export interface HandlerTransaction {
  /** A `pg` client after BEGIN. Do not end the transaction: the worker commits it with the result. */
  readonly tx: pg.Client
}

/** A test shift has no database. */
const noDatabase = {
  query: () =>
    Promise.reject(
      new TransactionError(
        "A test shift keeps its jobs in memory and has no database. Test this code with connect() and a real database."
      )
    )
}

/** The transaction in which the effect runs. @internal */
export const current: Effect.Effect<HandlerTransaction> = Effect.map(
  Effect.serviceOption(TransactionConnection),
  (outer) => {
    const connection: unknown = Option.isSome(outer) ? outer.value[0] : undefined
    return { tx: (Predicate.hasProperty(connection, "pg") ? connection.pg : noDatabase) as pg.Client }
  }
)
