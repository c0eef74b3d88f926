import type { SqlError } from "@effect/sql/SqlError"
import { Clock, Context, Duration, Effect, Layer } from "effect"
import * as Budget from "../../core/Budget.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, DatabaseUnavailable } from "../../database/DatabaseError.js"
import { within } from "../../database/StatementLimits.js"
import { SearchTooSlow } from "./JobSearch.js"

// Whoever looks may ask for anything, and must not keep the crew from its work by it: the server ends what takes too long,
// and only a few connections look at one time. Looks that read through jobs because no index knows what is asked for come one
// after another and share a budget of time: somebody's search is answered at once, and however many search for however long,
// they take a fifth of one connection.

const atOnce = 3

/** What may be spent on scans in one go, and how much of it comes back in a millisecond. */
const budget = { most: 3_000, refill: 0.2 }

/** PostgreSQL ended a statement for its length. */
const isTooLong = (error: DatabaseError) => error instanceof DatabaseUnavailable && error.sqlState === "57014"

/** A look at what the database holds, however much that is. */
export class BoundedQuery extends Context.Tag("nightshift/queue/BoundedQuery")<
  BoundedQuery,
  <A>(
    effect: Effect.Effect<A, SqlError | DatabaseError>,
    options?: {
      /** Whether it may have to read through all jobs. */
      readonly scans?: boolean
      /** How long each statement may take, where it is not worth as long as others are. */
      readonly patience?: Duration.Duration | undefined
    }
  ) => Effect.Effect<A, SearchTooSlow | DatabaseError>
>() {
  /** Every statement of a look may take so long. */
  static readonly layerWithin = (limit: Duration.DurationInput): Layer.Layer<BoundedQuery, never, Database> =>
    Layer.effect(
      BoundedQuery,
      Effect.gen(function* () {
        const database = yield* Database
        const places = yield* Effect.makeSemaphore(atOnce)
        const turn = yield* Effect.makeSemaphore(1)
        const bounded = <A>(
          effect: Effect.Effect<A, SqlError | DatabaseError>,
          patience: Duration.DurationInput = limit
        ) =>
          places
            .withPermits(1)(within(database, patience)(effect))
            .pipe(Effect.catchIf(isTooLong, () => new SearchTooSlow({ seconds: Duration.toSeconds(patience) })))

        const spare = Budget.make(budget)
        const measured = <A, E>(look: Effect.Effect<A, E>) =>
          Effect.flatMap(Clock.currentTimeMillis, (begun) =>
            Effect.ensuring(
              look,
              Effect.map(Clock.currentTimeMillis, (ended) => spare.spend(ended - begun, ended))
            )
          )
        const untilAffordable = Effect.flatMap(Clock.currentTimeMillis, (now) => {
          const millis = spare.wait(now)
          return millis > 0 ? Effect.sleep(millis) : Effect.void
        })
        const inTurn = <A, E>(look: Effect.Effect<A, E>) =>
          turn.withPermits(1)(Effect.zipRight(untilAffordable, measured(look)))
        return (effect, { patience, scans = false } = {}) =>
          scans ? inTurn(bounded(effect, patience)) : bounded(effect, patience)
      })
    )

  static readonly layer: Layer.Layer<BoundedQuery, never, Database> = BoundedQuery.layerWithin("5 seconds")
}
