import * as SqlClient from "@effect/sql/SqlClient"
import { Context, Effect, Layer, Option } from "effect"
import * as Rollback from "../core/Rollback.js"
import { Database } from "../database/Database.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { inHandler } from "../database/Pools.js"
import { AfterCommit } from "../database/Transaction.js"

/** Runs several changes atomically: all of them commit, or none. */
export class Transactions extends Context.Tag("nightshift/queue/Transactions")<
  Transactions,
  {
    /** Runs an effect in a transaction, or in a savepoint if one is already open. A failure rolls it back. */
    readonly run: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | DatabaseError, R>

    /** Runs a handler in a transaction. Handlers may take long, so they use a separate connection pool. */
    readonly runHandler: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | DatabaseError, R>
  }
>() {
  /** Transactions of PostgreSQL. Handlers wait here for one of DATABASE_HANDLER_POOL connections. */
  static readonly layer: Layer.Layer<Transactions, never, Database> = Layer.effect(
    Transactions,
    Effect.gen(function* () {
      const { handlerPoolSize, transaction } = yield* Database
      const room = yield* Effect.makeSemaphore(handlerPoolSize)
      const run: typeof Transactions.Service.run = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        transaction(effect) as Effect.Effect<A, E | DatabaseError, R>
      // A nested handler uses the outer connection. Waiting for a permit could deadlock, because the outer transaction
      // holds one.
      const runHandler: typeof Transactions.Service.runHandler = (effect) =>
        Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) =>
          Option.isSome(outer) ? run(effect) : room.withPermits(1)(Effect.locally(run(effect), inHandler, true))
        )
      return { run, runHandler }
    })
  )

  /** For tests in memory: other fibers see changes immediately, and tables that record an undo roll back on failure. */
  static readonly layerMemory: Layer.Layer<Transactions> = Layer.succeed(Transactions, {
    run: (effect) => Rollback.transaction(effect),
    runHandler: (effect) => Rollback.transaction(effect)
  })
}

/** Runs when the current transaction has committed, or at once if there is none. */
export const afterCommit = (run: () => void): Effect.Effect<void> =>
  Effect.map(Effect.serviceOption(AfterCommit), (callbacks) =>
    Option.isSome(callbacks) ? void callbacks.value.push(run) : run()
  )
