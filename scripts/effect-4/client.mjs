// A SQL client for PostgreSQL on effect/sql of Effect 4: pool, transactions, savepoints, streams, interruption.
import { Cause, Effect, Layer, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError, Statement } from "effect/sql"
import pg from "pg"
import Cursor from "pg-cursor"

const reasons = {
  23505: SqlError.UniqueViolation,
  "40P01": SqlError.DeadlockError,
  40001: SqlError.SerializationError,
  "55P03": SqlError.LockTimeoutError,
  57014: SqlError.StatementTimeoutError,
  42601: SqlError.SqlSyntaxError
}

const errorOf = (cause, operation) => {
  const isServer = cause instanceof pg.DatabaseError
  const Reason = isServer ? (reasons[cause.code] ?? SqlError.UnknownError) : SqlError.ConnectionError
  const extra = Reason === SqlError.UniqueViolation ? { constraint: cause.constraint ?? "unknown" } : {}
  return new SqlError.SqlError({ reason: new Reason({ cause, message: cause.message, operation, ...extra }) })
}

/** Interrupting a query cancels it at the server, through a second connection. */
const cancel = (pool, client) =>
  Effect.callback((resume) => {
    pool.query("select pg_cancel_backend($1)", [client.processID], () => resume(Effect.void))
  })

class PgConnection {
  constructor(pool, client) {
    this.pool = pool
    this.client = client
  }
  ask(query) {
    return Effect.callback((resume) => {
      this.client.query(query, (error, result) =>
        resume(error ? Effect.fail(errorOf(error, "execute")) : Effect.succeed(result))
      )
      return cancel(this.pool, this.client)
    })
  }
  executeRaw(text, values) {
    return this.ask({ text, values })
  }
  execute(text, values, transform) {
    return Effect.map(this.ask({ text, values }), ({ rows }) => (transform ? transform(rows) : rows))
  }
  executeUnprepared(text, values, transform) {
    return this.execute(text, values, transform)
  }
  executeValues(text, values) {
    return Effect.map(this.ask({ text, values, rowMode: "array" }), ({ rows }) => rows)
  }
  executeValuesUnprepared(text, values) {
    return this.executeValues(text, values)
  }
  executeStream(text, values, transform) {
    const { client } = this
    return Stream.unwrap(
      Effect.gen(function* () {
        const cursor = yield* Effect.acquireRelease(
          Effect.sync(() => client.query(new Cursor(text, values))),
          (opened) => Effect.promise(() => opened.close())
        )
        const pull = Effect.callback((resume) => {
          cursor.read(128, (error, rows) => {
            if (error) resume(Effect.fail(errorOf(error, "stream")))
            else if (rows.length === 0) resume(Cause.done())
            else resume(Effect.succeed(transform ? transform(rows) : rows))
          })
        })
        return Stream.fromPull(Effect.succeed(pull))
      })
    )
  }
}

/** Takes a connection from the pool for the scope. A connection that failed is not reused. */
const acquirer = (pool) =>
  Effect.acquireRelease(
    Effect.callback((resume) => {
      pool.connect((error, client) => {
        if (error) return resume(Effect.fail(errorOf(error, "connect")))
        const onError = (cause) => {
          client.broken = cause
        }
        client.on("error", onError)
        resume(Effect.succeed({ client, onError }))
      })
    }),
    ({ client, onError }) =>
      Effect.sync(() => {
        client.off("error", onError)
        client.release(client.broken)
      })
  ).pipe(Effect.map(({ client }) => new PgConnection(pool, client)))

const compiler = Statement.makeCompiler({
  dialect: "pg",
  placeholder: (index) => `$${index}`,
  onIdentifier: (name) => `"${name.replaceAll('"', '""')}"`,
  onRecordUpdate: (placeholders, alias, columns, values) => [
    `(values ${placeholders}) as ${alias}${columns}`,
    values.flat()
  ],
  onCustom: (custom) => [custom.paramA, []]
})

/** COMMIT of an aborted transaction succeeds with the tag ROLLBACK: that is a failure. */
const commit = (connection) =>
  Effect.flatMap(connection.executeRaw("COMMIT", []), ({ command }) =>
    command === "COMMIT" ? Effect.void : Effect.fail(errorOf(new Error("the server rolled back"), "commit"))
  )

export const layer = (url, max = 4) =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const pool = yield* Effect.acquireRelease(
        Effect.sync(() => new pg.Pool({ connectionString: url, max }).on("error", () => {})),
        (opened) => Effect.promise(() => opened.end())
      )
      const reserve = acquirer(pool)
      return yield* SqlClient.make({
        acquirer: reserve,
        transactionAcquirer: reserve,
        compiler,
        commit,
        driver: "nightshift",
        releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
        spanAttributes: [["db.system.name", "postgresql"]]
      })
    })
  ).pipe(Layer.provide(Reactivity.layer))
