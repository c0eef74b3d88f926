import type { SqlError } from "@effect/sql/SqlError"
import { Context, Duration, Effect, Layer } from "effect"
import { within } from "../../database/Bounded.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, DatabaseUnavailable } from "../../database/DatabaseError.js"
import { SearchTooSlow } from "../search/JobSearch.js"

// Whoever looks may ask for anything, and must not keep the crew from its work by it: the server ends what takes too long,
// and only a few connections look at one time.

const atOnce = 3

/** PostgreSQL ended a statement for its length. */
const isTooLong = (error: DatabaseError) => error instanceof DatabaseUnavailable && error.sqlState === "57014"

/** A look at what the database holds, however much that is. */
export class Look extends Context.Tag("nightshift/queue/Look")<
  Look,
  <A>(effect: Effect.Effect<A, SqlError | DatabaseError>) => Effect.Effect<A, SearchTooSlow | DatabaseError>
>() {
  /** Every statement of a look may take so long. */
  static readonly layerWithin = (limit: Duration.DurationInput): Layer.Layer<Look, never, Database> =>
    Layer.effect(
      Look,
      Effect.gen(function* () {
        const bounded = within(yield* Database, limit)
        const places = yield* Effect.makeSemaphore(atOnce)
        const tooSlow = new SearchTooSlow({ seconds: Duration.toSeconds(limit) })
        return (effect) =>
          places
            .withPermits(1)(bounded(effect))
            .pipe(Effect.catchIf(isTooLong, () => tooSlow))
      })
    )

  static readonly layer: Layer.Layer<Look, never, Database> = Look.layerWithin("5 seconds")
}
