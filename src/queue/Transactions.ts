import * as SqlClient from "@effect/sql/SqlClient"
import { Context, Effect, Layer, Option } from "effect"
import * as Undo from "../core/Undo.js"
import { Database } from "../database/Database.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { inHandler } from "../database/Pools.js"

/** Makes several acts one: all of them stand, or none. */
export class Transactions extends Context.Tag("nightshift/queue/Transactions")<
  Transactions,
  {
    readonly run: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | DatabaseError, R>

    /** The same around a handler, which may take long: on a connection that nothing else of Nightshift needs. */
    readonly runHandler: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | DatabaseError, R>
  }
>() {
  static readonly layer: Layer.Layer<Transactions, never, Database> = Layer.effect(
    Transactions,
    Effect.gen(function* () {
      const { handlerPoolSize, transaction } = yield* Database
      const room = yield* Effect.makeSemaphore(handlerPoolSize)
      const run: typeof Transactions.Service.run = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        transaction(effect) as Effect.Effect<A, E | DatabaseError, R>
      // Inside of another it needs no connection of its own, and must not wait for the room that the other takes.
      const runHandler: typeof Transactions.Service.runHandler = (effect) =>
        Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) =>
          Option.isSome(outer) ? run(effect) : room.withPermits(1)(Effect.locally(run(effect), inHandler, true))
        )
      return { run, runHandler }
    })
  )

  /** For tests in memory: others see acts as they are done, and those whose table remembers how are taken back. */
  static readonly layerMemory: Layer.Layer<Transactions> = Layer.succeed(Transactions, {
    run: (effect) => Undo.transaction(effect),
    runHandler: (effect) => Undo.transaction(effect)
  })
}
