import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import { Cause, Context, Duration, Effect, Exit, FiberRef, Option, Predicate, type Scope } from "effect"
import { type DatabaseError, DatabaseUnavailable, fromSqlError, mapErrors } from "./DatabaseError.js"
import { inHandler } from "./Pools.js"
import type { ServerConnection } from "./ServerConnection.js"

// The client's own `withTransaction` turns a failed COMMIT and a failed ROLLBACK into defects, and takes PostgreSQL's
// quiet answer "ROLLBACK" to a COMMIT for success. Nobody could retry the first or notice the second, so the outermost
// transaction is written out here; savepoints inside of it are the client's.

/** What is to happen once the surrounding transaction stands, in order. Never what could fail. */
export class AfterCommit extends Context.Tag("nightshift/database/AfterCommit")<AfterCommit, Array<() => void>>() {}

/** PostgreSQL answers a COMMIT of an already failed transaction with the tag ROLLBACK and no error. */
const wasRolledBack = (result: unknown) => Predicate.hasProperty(result, "command") && result.command === "ROLLBACK"

const commit = (connection: Connection): Effect.Effect<void, DatabaseError> =>
  connection.executeRaw("COMMIT", []).pipe(
    Effect.mapError((error) => fromSqlError(error, "commit")),
    Effect.filterOrFail(
      (result) => !wasRolledBack(result),
      () =>
        new DatabaseUnavailable({
          detail: "a statement of this transaction failed and its error was handled, so the whole was rolled back",
          sqlState: "25P02",
          nothingWritten: true
        })
    ),
    Effect.asVoid
  )

/** Our statements count on seeing what others have committed, whatever the role or the database has for a default. */
const begin = "BEGIN isolation level read committed"

/** How long a ROLLBACK may take: it waits for the statement before it, which was cancelled by then. */
const rollbackPatience = Duration.seconds(5)

/** Ends a connection that does not answer. The server rolls back what it loses the client of. */
const disconnect = (connection: Connection): Effect.Effect<void> =>
  Effect.sync(() => {
    const { pg } = connection as Connection & { readonly pg?: ServerConnection }
    pg?.disconnect(new Error("connection closed: PostgreSQL did not answer a ROLLBACK"))
  })

/** Whether the connection still lives. */
const rollback = (connection: Connection): Effect.Effect<boolean> =>
  connection.executeUnprepared("ROLLBACK", [], undefined).pipe(
    Effect.interruptible,
    Effect.timeoutOption(rollbackPatience),
    Effect.tap((answer) => (Option.isNone(answer) ? disconnect(connection) : Effect.void)),
    Effect.map(Option.isSome),
    Effect.catchAll(() => Effect.succeed(false))
  )

/** The connection broke: whatever a handler makes of the failure of its statement, this is why it failed. */
const lost = (cause: Cause.Cause<unknown>) =>
  new DatabaseUnavailable({
    detail: `the connection was lost during a transaction (${Cause.pretty(cause).split("\n")[0]})`,
    nothingWritten: true
  })

/** A defect that is really the driver's failure becomes a typed one. */
const withoutSqlDefects = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError, R> =>
  Effect.catchSomeDefect(effect, (defect) =>
    defect instanceof SqlError ? Option.some(Effect.fail(defect)) : Option.none()
  )

/** Runs the effect in one transaction, or in a savepoint of the one already open. */
export const run =
  (sql: SqlClient.SqlClient) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R> =>
    Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) =>
      Option.isSome(outer)
        ? mapErrors(withoutSqlDefects(savepoint(sql, effect)))
        : mapErrors(Effect.scoped(outermost(sql, effect)))
    )

/** What is rolled back to a savepoint has not happened, whatever becomes of the rest. */
const savepoint = <A, E, R>(
  sql: SqlClient.SqlClient,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError, R> =>
  Effect.flatMap(Effect.serviceOption(AfterCommit), (outer) => {
    const inner: Array<() => void> = []
    return Effect.tap(sql.withTransaction(Effect.provideService(effect, AfterCommit, inner)), () => {
      if (Option.isSome(outer)) outer.value.push(...inner)
      else for (const act of inner) act()
    })
  })

const outermost = <A, E, R>(
  sql: SqlClient.SqlClient,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError | DatabaseError, R | Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const connection = yield* restore(sql.reserve)
      yield* connection.executeUnprepared(begin, [], undefined)
      const afterwards: Array<() => void> = []
      const exit = yield* restore(withoutSqlDefects(effect)).pipe(
        Effect.provideService(SqlClient.TransactionConnection, [connection, 0]),
        Effect.provideService(AfterCommit, afterwards),
        Effect.exit
      )
      if (Exit.isSuccess(exit)) {
        yield* commit(connection)
        for (const act of afterwards) act()
        return exit.value
      }
      const lives = yield* rollback(connection)
      const isHandler = yield* FiberRef.get(inHandler)
      if (!lives && isHandler && !Cause.isInterrupted(exit.cause)) return yield* lost(exit.cause)
      return yield* Effect.failCause(exit.cause as Cause.Cause<E | SqlError>)
    })
  )

const withoutTransaction = Context.omit(SqlClient.TransactionConnection) as <R>(
  context: Context.Context<R>
) => Context.Context<R>

/** Runs the effect on a connection of its own, whatever transaction surrounds it: what it writes stands at once. */
export const outside = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.mapInputContext(effect, withoutTransaction<R>)
