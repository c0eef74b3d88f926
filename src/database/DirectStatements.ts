import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import { Context, Effect } from "effect"
import type pg from "pg"
import { CopyOut } from "./CopyOut.js"
import { type DatabaseError, fromSqlError, mapErrors } from "./DatabaseError.js"

// Statements that enqueue, claim and finalize jobs bypass the SQL client and use the driver directly: building a
// statement and a tracing span in the client takes as long as the server needs for one job. Interrupting the caller
// does not cancel the statement. The caller stops waiting, and the connection returns to the pool when the server has
// answered.

export interface DirectStatements {
  /** Returns the rows as arrays, in the column order of the statement. */
  readonly rows: (
    text: string,
    values: ReadonlyArray<unknown>
  ) => Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>, DatabaseError>

  /** Returns the number of rows that the statement changed or returned. */
  readonly count: (text: string, values: ReadonlyArray<unknown>) => Effect.Effect<number, DatabaseError>

  /** Returns the values of a query's only column, which must be `bytea` and not null. */
  readonly bytes: (
    text: string,
    values: ReadonlyArray<string | number>
  ) => Effect.Effect<ReadonlyArray<Buffer>, DatabaseError>
}

const failed = (error: Error) => Effect.fail(fromSqlError(new SqlError({ cause: error })))

const countOf = (result: unknown) => (result as pg.QueryResult).rowCount ?? 0

export const make = (pool: pg.Pool): DirectStatements => {
  // Effect keeps the function below in memory until the next full garbage collection (see Batcher), but not the values.
  const send = <A>(given: pg.QueryArrayConfig, answer: (result: pg.QueryArrayResult) => A) => {
    let query: pg.QueryArrayConfig | undefined = given
    return Effect.async<A, DatabaseError>((resume) => {
      const sent = query as pg.QueryArrayConfig
      query = undefined
      pool.query(sent, (error, result) => {
        resume(error ? failed(error) : Effect.succeed(answer(result)))
      })
    })
  }

  const ask = <A>(text: string, values: ReadonlyArray<unknown>, answer: (result: pg.QueryArrayResult) => A) =>
    Effect.suspend(() => send({ text, values: values as Array<unknown>, rowMode: "array" }, answer))

  const copy = (text: string, values: ReadonlyArray<string | number>) =>
    Effect.async<ReadonlyArray<Buffer>, DatabaseError>((resume) => {
      const query = new CopyOut(text, values)
      pool.query(query, (error: Error | undefined) => {
        resume(error ? failed(error) : Effect.sync(query.column))
      })
    })

  /** Uses the connection of the current transaction if there is one. */
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
      orInside(ask(text, values, countOf), (connection) => Effect.map(connection.executeRaw(text, values), countOf)),
    bytes: (text, values) =>
      orInside(copy(text, values), (connection) =>
        Effect.map(connection.executeValues(text, values), (rows) => rows.map(([value]) => value as Buffer))
      )
  }
}
