import type { SqlError } from "@effect/sql/SqlError"
import { Clock, Context, Duration, Effect, Layer } from "effect"
import * as TokenBucket from "../../core/TokenBucket.js"
import { Database, within } from "../../database/Database.js"
import { type DatabaseError, DatabaseUnavailable } from "../../database/DatabaseError.js"
import { SearchTooSlow } from "./JobSearch.js"

// Operators can run arbitrary searches, which must not slow down jobs: the server cancels statements that take too
// long, and few connections run searches at once. Searches that no index supports run one at a time and share a time
// budget: a single search starts immediately, and any number of them use at most a fifth of one connection.

/** Connections for searches: at most 3, and 2 remain for heartbeats, claims and results, if the pool has as many. */
const atOnce = (poolSize: number) => Math.max(1, Math.min(3, poolSize - 2))

/** Milliseconds of scan time available at once, and refilled per millisecond. */
const budget = { capacity: 3_000, refill: 0.2 }

/** PostgreSQL cancelled the statement because of its statement_timeout. */
const isTooLong = (error: DatabaseError) => error instanceof DatabaseUnavailable && error.sqlState === "57014"

export interface BoundedOptions {
  /** Whether the query may have to read all jobs. */
  readonly scans?: boolean
  /** Time limit, if shorter than the default. */
  readonly timeout?: Duration.Duration | undefined
}

/** Runs a query with a time limit. */
export class BoundedQuery extends Context.Tag("nightshift/queue/BoundedQuery")<
  BoundedQuery,
  <A>(
    effect: Effect.Effect<A, SqlError | DatabaseError>,
    options?: BoundedOptions
  ) => Effect.Effect<A, SearchTooSlow | DatabaseError>
>() {
  /** Sets the default time limit. */
  static readonly layerWithin = (limit: Duration.DurationInput): Layer.Layer<BoundedQuery, never, Database> =>
    Layer.effect(
      BoundedQuery,
      Effect.gen(function* () {
        const database = yield* Database
        const places = yield* Effect.makeSemaphore(atOnce(database.poolSize))
        const turn = yield* Effect.makeSemaphore(1)
        const tooSlow = (timeout: Duration.DurationInput) => new SearchTooSlow({ seconds: Duration.toSeconds(timeout) })

        const spare = TokenBucket.make(budget)
        const measured = <A, E>(query: Effect.Effect<A, E>) =>
          Effect.flatMap(Clock.currentTimeMillis, (begun) =>
            Effect.ensuring(
              query,
              Effect.map(Clock.currentTimeMillis, (ended) => spare.spend(ended - begun, ended))
            )
          )
        const untilAffordable = Effect.flatMap(Clock.currentTimeMillis, (now) => {
          const millis = spare.wait(now)
          return millis > 0 ? Effect.sleep(millis) : Effect.void
        })
        const inTurn = <A, E>(query: Effect.Effect<A, E>) =>
          turn.withPermits(1)(Effect.zipRight(untilAffordable, measured(query)))

        /** The time that a query waits for its turn is part of its limit: the caller waits for both. */
        return <A>(
          effect: Effect.Effect<A, SqlError | DatabaseError>,
          { timeout = Duration.decode(limit), scans = false }: BoundedOptions = {}
        ) =>
          Effect.flatMap(Clock.currentTimeMillis, (asked) => {
            let isWaiting = true
            const run = Effect.flatMap(Clock.currentTimeMillis, (now) => {
              isWaiting = false
              const left = Duration.subtract(timeout, Duration.millis(now - asked))
              return Duration.toMillis(left) < 1
                ? tooSlow(timeout)
                : Effect.catchIf(within(database, left)(effect), isTooLong, () => tooSlow(timeout))
            })
            const query = places.withPermits(1)(run)
            // Only a query that has not begun is abandoned here; the server cancels one that runs.
            const abandon = Effect.sleep(timeout).pipe(
              Effect.repeat({ until: () => isWaiting }),
              Effect.zipRight(tooSlow(timeout))
            )
            return scans ? Effect.raceFirst(inTurn(query), abandon) : query
          })
      })
    )

  static readonly layer: Layer.Layer<BoundedQuery, never, Database> = BoundedQuery.layerWithin("5 seconds")
}
