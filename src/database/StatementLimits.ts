import type { SqlError } from "@effect/sql/SqlError"
import { Duration, Effect } from "effect"
import type { Database } from "./Database.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"

/**
 * Runs read-only queries with limits, so that they cannot overload the server: the server cancels any statement that
 * exceeds the time limit, and no statement uses parallel workers.
 */
export const within =
  (database: typeof Database.Service, limit: Duration.DurationInput) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R> => {
    const millis = String(Math.ceil(Duration.toMillis(limit)))
    const { sql, transaction } = database
    const bounds = sql`select set_config('statement_timeout', ${millis}, true),
      set_config('max_parallel_workers_per_gather', '0', true)`
    return transaction(Effect.zipRight(mapErrors(bounds), effect))
  }
