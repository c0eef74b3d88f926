import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Context, Effect, Layer, type Scope } from "effect"
import type pg from "pg"
import { type DatabaseRejected, type DatabaseUnreachable, reach } from "./DatabaseBoot.js"
import { DatabaseConfig } from "./DatabaseConfig.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"
import { address, DatabaseUrl } from "./DatabaseUrl.js"
import * as DirectStatements from "./DirectStatements.js"
import * as Pools from "./Pools.js"
import type { StatementListener } from "./StatementTimes.js"
import * as Transaction from "./Transaction.js"
import { WriteHealth } from "./WriteHealth.js"

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

    /** Whether the server takes writes; a standby does not. */
    readonly mode: Effect.Effect<"primary" | "standby" | "read-only", DatabaseError>

    /** How the writes of this process are going. */
    readonly writes: WriteHealth

    /** How many connections Nightshift's own statements may hold. */
    readonly poolSize: number

    readonly poolUse: Effect.Effect<Pools.PoolUse>

    /** How many more the program's own statements and handlers may hold. */
    readonly handlerPoolSize: number

    readonly handlerPoolUse: Effect.Effect<Pools.PoolUse>

    /** How many connections were closed because the server did not answer a statement in time. */
    readonly unansweredStatements: Effect.Effect<number>

    /**
     * The process must end: from now on our own statements get DATABASE_CONNECT_TIMEOUT. When `workEnded` completes, a server
     * that does not answer for three seconds is given up: every connection is closed, and every later statement is refused.
     */
    readonly hurry: (workEnded: Effect.Effect<void>) => Effect.Effect<void>

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
      const pools = yield* Pools.open(url, config, (operation, millis) => {
        for (const listener of listeners) listener(operation, millis)
      })
      const database = Layer.scoped(
        Database,
        Effect.gen(function* () {
          const sql = yield* clientOf(pools.own)
          const serverVersion = yield* reach(sql, { address: address(url), patience: config.bootPatience })
          return Database.of({
            sql,
            direct: DirectStatements.make(pools.own),
            schema: config.schema,
            transaction: Transaction.run(sql),
            ping: mapErrors(Effect.asVoid(sql`select 1`)),
            mode: mapErrors(modeOf(sql)),
            writes: new WriteHealth(),
            poolSize: config.pool,
            poolUse: Effect.sync(pools.use),
            handlerPoolSize: config.handlerPool,
            handlerPoolUse: Effect.sync(pools.programUse),
            unansweredStatements: Effect.sync(pools.unanswered),
            hurry: pools.hurry,
            onStatement: (listener) => Effect.sync(() => void listeners.push(listener)),
            serverVersion
          })
        })
      )
      return Layer.merge(database, layerClient(pools.program))
    })
  )
}

/** Pools connect lazily, so opening one cannot fail. */
const layerClient = (pool: pg.Pool) => Layer.orDie(PgClient.layerFromPool({ acquire: Effect.succeed(pool) }))

const clientOf = (pool: pg.Pool): Effect.Effect<PgClient.PgClient, never, Scope.Scope> =>
  Effect.map(Layer.build(layerClient(pool)), (services) => Context.get(services, PgClient.PgClient))

const modeOf = (sql: PgClient.PgClient) =>
  Effect.map(
    sql<{ standby: boolean; read_only: boolean }>`select pg_catalog.pg_is_in_recovery() as standby,
      pg_catalog.current_setting('transaction_read_only') = 'on' as read_only`,
    ([row]) => (row?.standby === true ? "standby" : row?.read_only === true ? "read-only" : "primary")
  )
