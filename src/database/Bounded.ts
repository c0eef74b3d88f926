import type { SqlError } from "@effect/sql/SqlError"
import { Duration, Effect } from "effect"
import type { Database } from "./Database.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"

/** Looking must not hurt: the statements of the effect are ended by the server itself when one of them takes longer. */
export const within =
  (database: typeof Database.Service, limit: Duration.DurationInput) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R> => {
    const millis = String(Math.ceil(Duration.toMillis(limit)))
    const { sql, transaction } = database
    return transaction(Effect.zipRight(mapErrors(sql`select set_config('statement_timeout', ${millis}, true)`), effect))
  }
