import { Clock, Duration, Effect } from "effect"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import { instant } from "../database/SqlInstant.js"

/** How many rows one statement deletes: enough to be worth it, few enough to be short. */
const batch = 5_000

interface Rows {
  readonly table: string
  readonly key: string
  /** What an old row is, given the first parameter as the instant before which it must lie. */
  readonly old: (before: string) => string
}

/** Forgets rows older than this, in bounded batches. Returns how many went. */
export const purge = (
  { schema, sql }: typeof Database.Service,
  { key, old, table }: Rows,
  olderThan: Duration.Duration
): Effect.Effect<number, DatabaseError> =>
  Effect.gen(function* () {
    const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(olderThan)
    // Rows that somebody else deletes or rewrites at this moment are left to them.
    const text = `
      with old as (
        select ${key} from ${schema}.${table} where ${old(instant("$1"))} limit $2 for update skip locked
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
