import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type * as PgClient from "@effect/sql-pg/PgClient"
import { Context, Duration, Effect, Layer, Option, type Scope } from "effect"
import { type DatabaseRejected, type DatabaseUnreachable, reach, repeatUnanswered } from "./DatabaseBoot.js"
import { DatabaseConfig } from "./DatabaseConfig.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"
import { address, DatabaseUrl } from "./DatabaseUrl.js"
import * as DirectStatements from "./DirectStatements.js"
import * as PooledClient from "./PooledClient.js"
import * as Pools from "./Pools.js"
import * as Replica from "./Replica.js"
import type { StatementListener } from "./Statements.js"
import * as Transaction from "./Transaction.js"
import { WriteHealth } from "./WriteHealth.js"

/** The PostgreSQL connection that all services use. */
export class Database extends Context.Tag("nightshift/database/Database")<
  Database,
  {
    /** The SQL client. Inside a transaction it uses that transaction's connection. */
    readonly sql: SqlClient.SqlClient

    /** Executes the few statements that every job needs without the overhead of the SQL client. */
    readonly direct: DirectStatements.DirectStatements

    /** The schema of the Nightshift tables: an identifier that needs no quoting. */
    readonly schema: string

    /**
     * Runs the effect in a transaction, or in a savepoint if one is already open. A failed COMMIT and a lost connection
     * are typed errors.
     */
    readonly transaction: <A, E, R>(
      effect: Effect.Effect<A, E, R>
    ) => Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R>

    /**
     * Runs the effect outside the current transaction, on a connection for Nightshift's statements. Handlers wait while
     * others use all but two of these. Its writes are committed independently.
     */
    readonly outside: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

    /** Runs `select 1`. Fails if the server does not answer. */
    readonly ping: Effect.Effect<void, DatabaseError>

    /** Whether the server accepts writes. */
    readonly mode: Effect.Effect<"primary" | "standby" | "read-only", DatabaseError>

    /** The replica of DATABASE_READ_URL, for reads of operators. */
    readonly replica: Replica.Replica | undefined

    /** Health of this process's writes. */
    readonly writes: WriteHealth

    /** Maximum number of connections for Nightshift's own statements. */
    readonly poolSize: number

    /** Busy and idle connections of the main pool, and statements that wait for one. */
    readonly poolUse: Effect.Effect<Pools.PoolUse>

    /** Maximum number of additional connections for handlers and the program's own statements. */
    readonly handlerPoolSize: number

    /** Busy and idle connections of the handlers' pool, and statements that wait for one. */
    readonly handlerPoolUse: Effect.Effect<Pools.PoolUse>

    /** Maximum number of connections that this process opens to PostgreSQL. Undefined if a pooler is in between. */
    readonly maxConnections: Effect.Effect<number | undefined>

    /** Number of connections closed because the server did not answer a statement in time. */
    readonly unansweredStatements: Effect.Effect<number>

    /**
     * Prepares for shutdown: Nightshift's own statements get only DATABASE_CONNECT_TIMEOUT from now on. After
     * `workEnded` completes, if the server does not answer for three seconds, all connections are closed and later
     * statements fail.
     */
    readonly beginShutdown: (workEnded: Effect.Effect<void>) => Effect.Effect<void>

    /** Restores the normal timeouts, for a program that keeps running. Concurrent shutdowns end with the last one. */
    readonly cancelShutdown: Effect.Effect<void>

    /** Calls the listener with the duration of every later statement of this process, until the Scope closes. */
    readonly onStatement: (listener: StatementListener) => Effect.Effect<void, never, Scope.Scope>

    /** DATABASE_BOOT_TIMEOUT: how long steps of the startup are repeated while the server does not answer. */
    readonly bootTimeout: Duration.Duration

    /** The server's `server_version_num`. */
    readonly serverVersion: number
  }
>() {
  /** Connects, and waits for a server that is still starting. `SqlClient` is for the program's own statements. */
  static readonly layer: Layer.Layer<
    Database | SqlClient.SqlClient | PgClient.PgClient,
    DatabaseUnreachable | DatabaseRejected,
    DatabaseUrl | DatabaseConfig
  > = Layer.unwrapScoped(
    Effect.gen(function* () {
      const config = yield* DatabaseConfig
      const url = yield* DatabaseUrl
      const listeners = new Set<StatementListener>()
      const writes = new WriteHealth()
      const onStatement: StatementListener = (operation, millis) => {
        for (const listener of listeners) listener(operation, millis)
      }
      const pools = yield* Pools.open(url, config, onStatement, writes)
      const database = Layer.scoped(
        Database,
        Effect.gen(function* () {
          const sql = yield* PooledClient.make(pools.own)
          const serverVersion = yield* reach(sql, { address: address(url), timeout: config.bootTimeout })
          return Database.of({
            sql,
            direct: DirectStatements.make(pools.own),
            schema: config.schema,
            transaction: Transaction.run(sql),
            outside: Transaction.outsideOf(config.pool),
            ping: mapErrors(Effect.asVoid(sql`select 1`)),
            mode: mapErrors(serverMode(sql)),
            replica: Option.isSome(config.readUrl) ? yield* Replica.make(config.readUrl.value, config, sql) : undefined,
            writes,
            poolSize: config.pool,
            poolUse: Effect.sync(pools.use),
            handlerPoolSize: config.handlerPool,
            handlerPoolUse: Effect.sync(pools.programUse),
            maxConnections: Effect.sync(pools.maxConnections),
            unansweredStatements: Effect.sync(pools.unanswered),
            beginShutdown: pools.beginShutdown,
            cancelShutdown: pools.cancelShutdown,
            onStatement: (listener) =>
              Effect.acquireRelease(
                Effect.sync(() => void listeners.add(listener)),
                () => Effect.sync(() => void listeners.delete(listener))
              ),
            bootTimeout: config.bootTimeout,
            serverVersion
          })
        })
      )
      return Layer.merge(database, PooledClient.layer(pools.program))
    })
  )
}

/** Repeats an idempotent step of the startup while the database does not answer. Without a database, runs it once. */
export const patiently = <A, E, R>(step: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.serviceOption(Database), (database) =>
    Option.isNone(database) ? step : repeatUnanswered(database.value.bootTimeout)(step)
  )

const serverMode = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<{ standby: boolean; read_only: boolean }>`select pg_catalog.pg_is_in_recovery() as standby,
      pg_catalog.current_setting('transaction_read_only') = 'on' as read_only`,
    ([row]) => (row?.standby === true ? "standby" : row?.read_only === true ? "read-only" : "primary")
  )

/**
 * Runs read-only queries with limits, so that they cannot overload the server: the server cancels any statement that
 * exceeds the time limit, and no statement uses parallel workers. Inside `Replica.reading` they may run on the replica.
 */
export const within =
  (database: typeof Database.Service, limit: Duration.DurationInput) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R> => {
    const millis = String(Math.ceil(Duration.toMillis(limit)))
    const { replica, sql, transaction } = database
    const bounds = sql`select set_config('statement_timeout', ${millis}, true),
      set_config('max_parallel_workers_per_gather', '0', true)`
    const bounded = Effect.zipRight(mapErrors(bounds), effect)
    return replica === undefined ? transaction(bounded) : replica.read(bounded)
  }
