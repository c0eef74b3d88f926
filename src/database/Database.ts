import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Context, Duration, Effect, Layer, Redacted, type Scope } from "effect"
import pg from "pg"
import { type DatabaseRejected, type DatabaseUnreachable, reach } from "./DatabaseBoot.js"
import { DatabaseConfig } from "./DatabaseConfig.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"
import { address, DatabaseUrl } from "./DatabaseUrl.js"
import * as DirectStatements from "./DirectStatements.js"
import { PreparingClient } from "./HotStatements.js"
import { type StatementListener, timing } from "./StatementTimes.js"
import * as Transaction from "./Transaction.js"

/** What the connections of this process are doing. */
export interface PoolUse {
  readonly busy: number
  readonly idle: number
  /** Statements that wait for a connection. */
  readonly waiting: number
}

/** PostgreSQL, as every port below the doors uses it. */
export class Database extends Context.Tag("nightshift/database/Database")<
  Database,
  {
    /** The client that every statement goes through; inside a transaction it speaks on that transaction's connection. */
    readonly sql: PgClient.PgClient

    /** The short way, for the few statements that every job needs. */
    readonly direct: DirectStatements.DirectStatements

    /** The schema that holds our tables: an identifier that needs no quoting. */
    readonly schema: string

    /** All or nothing. A failed COMMIT and a lost connection are typed failures; inside another it is a savepoint. */
    readonly transaction: <A, E, R>(
      effect: Effect.Effect<A, E, R>
    ) => Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R>

    /** Succeeds when the server answers. */
    readonly ping: Effect.Effect<void, DatabaseError>

    /** How many connections this process may hold. */
    readonly poolSize: number

    readonly poolUse: Effect.Effect<PoolUse>

    /** Tells how long every statement of this process took, from now on. */
    readonly onStatement: (listener: StatementListener) => Effect.Effect<void>

    /** The server's `server_version_num`. */
    readonly serverVersion: number
  }
>() {
  /** Connects, waiting for a server that is still starting. `SqlClient` is for the program's own statements. */
  static readonly layer: Layer.Layer<
    Database | SqlClient.SqlClient | PgClient.PgClient,
    DatabaseUnreachable | DatabaseRejected,
    DatabaseUrl | DatabaseConfig
  > = Layer.unwrapScoped(
    Effect.gen(function* () {
      const config = yield* DatabaseConfig
      const url = yield* DatabaseUrl
      const listeners: Array<StatementListener> = []
      const pool = yield* openPool(url, config, (operation, millis) => {
        for (const listener of listeners) listener(operation, millis)
      })
      const client = PgClient.layerFromPool({ acquire: Effect.succeed(pool) })
      const database = Layer.effect(
        Database,
        Effect.gen(function* () {
          const sql = yield* PgClient.PgClient
          const serverVersion = yield* reach(sql, { address: address(url), patience: config.bootPatience })
          return Database.of({
            sql,
            direct: DirectStatements.make(pool),
            schema: config.schema,
            transaction: Transaction.run(sql),
            ping: mapErrors(Effect.asVoid(sql`select 1`)),
            poolSize: config.pool,
            poolUse: Effect.sync(() => ({
              busy: pool.totalCount - pool.idleCount,
              idle: pool.idleCount,
              waiting: pool.waitingCount
            })),
            onStatement: (listener) => Effect.sync(() => void listeners.push(listener)),
            serverVersion
          })
        })
      )
      // The pool connects lazily, so opening it cannot fail.
      return Layer.provideMerge(database, Layer.orDie(client))
    })
  )
}

const openPool = (
  url: Redacted.Redacted,
  config: typeof DatabaseConfig.Service,
  listener: StatementListener
): Effect.Effect<pg.Pool, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const pool = new pg.Pool({
        connectionString: Redacted.value(url),
        max: config.pool,
        connectionTimeoutMillis: Duration.toMillis(config.connectTimeout),
        statement_timeout: Duration.toMillis(config.statementTimeout),
        application_name: config.applicationName,
        keepAlive: true,
        Client: timing(config.prepare ? PreparingClient : pg.Client, listener)
      })
      // An idle connection that breaks is replaced by the pool at its next use; without a listener it ends the process.
      pool.on("error", () => {})
      // The same between two statements of a transaction, and in the moment in which a connection changes hands. Whoever
      // waits for an answer of it is told by the answer.
      pool.on("connect", (client) => client.on("error", () => {}))
      return pool
    }),
    (pool) => Effect.timeoutOption(Effect.interruptible(Effect.promise(() => pool.end())), "5 seconds")
  )
