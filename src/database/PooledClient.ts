import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import type { SqlError } from "@effect/sql/SqlError"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Context, Effect, Exit, Layer, Scope, Stream } from "effect"
import type pg from "pg"

// The SQL client over a pool. The client's own `reserve`, and its streams outside a transaction, lose the connection if
// the caller is interrupted while it waits for one. Its `withTransaction` cannot be interrupted while it waits. This
// module replaces all three.

/**
 * Reserves a connection until the Scope closes. An interrupted caller does not wait: the client's `reserve` finishes in
 * the background, and the closed Scope returns the connection to the pool at once.
 */
const reserveOf = (client: SqlClient.SqlClient): SqlClient.SqlClient["reserve"] =>
  Effect.disconnect(Effect.uninterruptible(client.reserve))

const withTransactionOf =
  (reserve: SqlClient.SqlClient["reserve"]) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError, R> =>
    Effect.uninterruptibleMask((restore) => {
      const acquireConnection = Effect.flatMap(Scope.make(), (scope) =>
        restore(Scope.extend(reserve, scope)).pipe(
          Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause))),
          Effect.map((connection) => [scope, connection] as const)
        )
      )
      const execute = (text: string) => (connection: Connection) => connection.executeUnprepared(text, [], undefined)
      const savepoint = (text: string) => (connection: Connection, depth: number) =>
        connection.executeUnprepared(`${text} effect_sql_${depth}`, [], undefined)
      return SqlClient.makeWithTransaction({
        transactionTag: SqlClient.TransactionConnection,
        spanAttributes: [["db.system.name", "postgresql"]],
        acquireConnection,
        begin: execute("BEGIN"),
        commit: execute("COMMIT"),
        rollback: execute("ROLLBACK"),
        savepoint: savepoint("SAVEPOINT"),
        rollbackSavepoint: savepoint("ROLLBACK TO SAVEPOINT")
      })(restore(effect))
    })

/** The connection object that all statements outside transactions share. Each statement takes a pooled connection. */
const sharedConnection = (client: PgClient.PgClient) => {
  const { acquirer } = client`select 1` as unknown as {
    readonly acquirer: Effect.Effect<Connection, never, Scope.Scope>
  }
  return Effect.scoped(acquirer)
}

const services = (pool: pg.Pool) =>
  Effect.gen(function* () {
    const built = yield* Layer.build(PgClient.layerFromPool({ acquire: Effect.succeed(pool) }))
    const client = Context.get(built, PgClient.PgClient)
    const reserve = reserveOf(client)
    const executeStream: Connection["executeStream"] = (...statement) =>
      Stream.unwrapScoped(Effect.map(reserve, (connection) => connection.executeStream(...statement)))
    Object.assign(yield* sharedConnection(client), { executeStream })
    Object.assign(client, { reserve, withTransaction: withTransactionOf(reserve) })
    return built
  }).pipe(Effect.orDie)

/** Provides the client to the program. The pool connects on first use. */
export const layer = (pool: pg.Pool): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient> =>
  Layer.scopedContext(services(pool))

export const make = (pool: pg.Pool): Effect.Effect<SqlClient.SqlClient, never, Scope.Scope> =>
  Effect.map(services(pool), (built) => Context.get(built, PgClient.PgClient))
