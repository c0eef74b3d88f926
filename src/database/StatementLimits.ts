import type { SqlError } from "@effect/sql/SqlError"
import { Duration, Effect } from "effect"
import type { Database } from "./Database.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"

/**
 * Looking must not hurt: the statements of the effect are ended by the server itself when one of them takes longer, and none of
 * them takes more than one of its processors, however sure the planner is that more would be faster.
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
