import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import { Cause, Context, Duration, Effect, Exit, FiberRef, Option, Predicate, type Scope } from "effect"
import { type DatabaseError, DatabaseUnavailable, mapErrors } from "./DatabaseError.js"
import { inHandler } from "./Pools.js"
import type { ServerConnection } from "./ServerConnection.js"

// The SQL client's `withTransaction` turns a failed COMMIT or ROLLBACK into a defect, which callers cannot retry, and
// treats the answer "ROLLBACK" to a COMMIT as success. The outermost transaction is therefore implemented here.
// Savepoints use the client.

/** Callbacks to run in order after the current transaction has committed. They must not throw. */
export class AfterCommit extends Context.Tag("nightshift/database/AfterCommit")<AfterCommit, Array<() => void>>() {}

/** PostgreSQL answers a COMMIT of a failed transaction with the tag ROLLBACK and no error. */
const wasRolledBack = (result: unknown) => Predicate.hasProperty(result, "command") && result.command === "ROLLBACK"

const commit = (connection: Connection): Effect.Effect<void, DatabaseError> =>
  mapErrors(connection.executeRaw("COMMIT", [])).pipe(
    Effect.filterOrFail(
      (result) => !wasRolledBack(result),
      () =>
        new DatabaseUnavailable({
          detail:
            "a statement failed and its error was caught inside the transaction, so the whole transaction was rolled back",
          sqlState: "25P02",
          nothingWritten: true
        })
    ),
    Effect.asVoid
  )

/** Nightshift's statements rely on read committed; the role or the database may have another default. */
const begin = "BEGIN isolation level read committed"

/** Time limit of a ROLLBACK, which waits for the cancelled statement before it to end. */
const rollbackTimeout = Duration.seconds(5)

/** Closes a connection that does not answer. The server rolls back the transaction of a lost client. */
const disconnect = (connection: Connection): Effect.Effect<void> =>
  Effect.sync(() => {
    const { pg } = connection as Connection & { readonly pg?: ServerConnection }
    pg?.disconnect(new Error("connection closed: PostgreSQL did not answer a ROLLBACK"))
  })

/** Rolls back. Returns whether the connection is still usable. */
const rollback = (connection: Connection): Effect.Effect<boolean> =>
  connection.executeUnprepared("ROLLBACK", [], undefined).pipe(
    Effect.interruptible,
    Effect.timeoutOption(rollbackTimeout),
    Effect.tap((answer) => (Option.isNone(answer) ? disconnect(connection) : Effect.void)),
    Effect.map(Option.isSome),
    Effect.catchAll(() => Effect.succeed(false))
  )

/**
 * The error of a handler's transaction whose connection broke. It replaces the error that the handler failed with,
 * which only follows from the lost connection.
 */
const lost = (cause: Cause.Cause<unknown>) =>
  new DatabaseUnavailable({
    detail: `the connection was lost during a transaction (${Cause.pretty(cause).split("\n")[0]})`,
    nothingWritten: true
  })

/** Turns a SqlError defect into a typed error. */
const withoutSqlDefects = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError, R> =>
  Effect.catchSomeDefect(effect, (defect) =>
    defect instanceof SqlError ? Option.some(Effect.fail(defect)) : Option.none()
  )

/** Runs the effect in a transaction, or in a savepoint if one is already open. */
export const run =
  (sql: SqlClient.SqlClient) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R> =>
    Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) =>
      Option.isSome(outer)
        ? mapErrors(withoutSqlDefects(savepoint(sql, effect)))
        : mapErrors(Effect.scoped(outermost(sql, effect)))
    )

/** Callbacks of a savepoint that is rolled back are dropped, even if the outer transaction commits. */
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

/**
 * Runs the effect outside the current transaction, on a separate connection. Its writes are committed independently. Never
 * on a connection for handlers: their transactions may hold all of these, and would wait for each other.
 */
export const outside = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.locally(Effect.mapInputContext(effect, withoutTransaction<R>), inHandler, false)

/** Connections that handlers leave to claims, heartbeats and results. */
const forWork = 2

/** How many connections of a pool of this size handlers may use at a time, through `outside`. */
export const forHandlers = (poolSize: number): number => Math.max(1, poolSize - forWork)

/**
 * `outside` for a pool of this size. Handlers use some of the connections at a time: statements of theirs that wait for a
 * row lock must not keep claims, heartbeats and results from the rest.
 */
export const outsideOf = (poolSize: number): typeof outside => {
  const places = Effect.unsafeMakeSemaphore(forHandlers(poolSize))
  return (effect) =>
    Effect.flatMap(FiberRef.get(inHandler), (isHandler) =>
      isHandler ? places.withPermits(1)(outside(effect)) : outside(effect)
    )
}
