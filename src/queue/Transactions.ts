import { Context, Effect, Layer } from "effect"
import * as Undo from "../core/Undo.js"
import { Database } from "../database/Database.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** Makes several acts one: all of them stand, or none. */
export class Transactions extends Context.Tag("nightshift/queue/Transactions")<
  Transactions,
  {
    readonly run: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | DatabaseError, R>
  }
>() {
  static readonly layer: Layer.Layer<Transactions, never, Database> = Layer.effect(
    Transactions,
    Effect.map(Database, (database) => ({
      run: <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        database.transaction(effect) as Effect.Effect<A, E | DatabaseError, R>
    }))
  )

  /** For tests in memory: others see acts as they are done, and those whose table remembers how are taken back. */
  static readonly layerMemory: Layer.Layer<Transactions> = Layer.succeed(Transactions, {
    run: (effect) => Undo.transaction(effect)
  })
}
