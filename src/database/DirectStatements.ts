import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import { Context, Effect } from "effect"
import type pg from "pg"
import { type DatabaseError, fromSqlError, mapErrors } from "./DatabaseError.js"

// Storing, claiming and ending jobs goes straight to the driver: building a statement for the SQL client and a span around it
// takes as long as the server takes for a single job. All else goes through the client. What was begun here is not cut off:
// who is interrupted no longer waits, and the connection goes back when the server has answered.

export interface DirectStatements {
  /** The rows, each as an array in the order of the statement. */
  readonly rows: (
    text: string,
    values: ReadonlyArray<unknown>
  ) => Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>, DatabaseError>

  /** How many rows the statement changed or returned. */
  readonly count: (text: string, values: ReadonlyArray<unknown>) => Effect.Effect<number, DatabaseError>
}

const countOf = (result: unknown) => (result as pg.QueryResult).rowCount ?? 0

export const make = (pool: pg.Pool): DirectStatements => {
  const ask = <A>(text: string, values: ReadonlyArray<unknown>, answer: (result: pg.QueryArrayResult) => A) =>
    Effect.async<A, DatabaseError>((resume) => {
      pool.query({ text, values: values as Array<unknown>, rowMode: "array" }, (error, result) => {
        resume(error ? Effect.fail(fromSqlError(new SqlError({ cause: error }))) : Effect.succeed(answer(result)))
      })
    })

  /** Inside a transaction a statement is part of it. */
  const orInside = <A>(
    direct: Effect.Effect<A, DatabaseError>,
    inside: (connection: Connection) => Effect.Effect<A, SqlError>
  ) =>
    Effect.withFiberRuntime<A, DatabaseError>((fiber) => {
      const outer = Context.getOption(fiber.currentContext, SqlClient.TransactionConnection)
      return outer._tag === "None" ? direct : mapErrors(inside(outer.value[0]))
    })

  return {
    rows: (text, values) =>
      orInside(
        ask(text, values, ({ rows }) => rows),
        (connection) => connection.executeValues(text, values)
      ),
    count: (text, values) =>
      orInside(ask(text, values, countOf), (connection) => Effect.map(connection.executeRaw(text, values), countOf))
  }
}
