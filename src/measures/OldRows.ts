import { Clock, Duration, Effect } from "effect"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"

/** How many rows one statement deletes: enough to be worth it, few enough to be short. */
const batch = 5_000

/** Forgets the rows of a table whose minute is older than this, by their key, in bounded batches. Returns how many went. */
export const purge = (
  { schema, sql }: typeof Database.Service,
  table: string,
  key: string,
  olderThan: Duration.Duration
): Effect.Effect<number, DatabaseError> =>
  Effect.gen(function* () {
    const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(olderThan)
    // Rows that somebody else deletes or rewrites at this moment are left to them.
    const text = `
      with old as (
        select ${key} from ${schema}.${table} where minute < to_timestamp($1::float8 / 1000)
        order by minute limit $2 for update skip locked
      )
      delete from ${schema}.${table} where (${key}) in (select ${key} from old)`
    let sum = 0
    for (;;) {
      const result = yield* mapErrors(sql.unsafe(text, [before, batch]).raw)
      const count = (result as { readonly rowCount: number | null }).rowCount ?? 0
      sum += count
      if (count < batch) return sum
    }
  })
