import { type Duration, Effect } from "effect"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import { purged } from "../database/Purge.js"
import { instant } from "../database/SqlInstant.js"

// Times are passed as epoch milliseconds.

/** Rows within the range given by the first two parameters. */
export const during = (column: string) => `${column} >= ${instant("$1")} and ${column} < ${instant("$2")}`

/** Start of the bucket that contains a time; `width` is the parameter with the bucket width. */
export const bucketStart = (column: string, width: string) =>
  `floor(extract(epoch from ${column}) * 1000 / ${width})::float8 * ${width}`

/** Rows per delete statement: large enough to be efficient, small enough to be short. */
const batch = 5_000

interface Rows {
  readonly table: string
  readonly key: string
  /** SQL condition for old rows, given the parameter with the cutoff time. */
  readonly old: (before: string) => string
}

/** Deletes rows older than this, in bounded batches. Returns the number deleted. */
export const purgeRows = (
  { schema, sql }: typeof Database.Service,
  { key, old, table }: Rows,
  olderThan: Duration.Duration
): Effect.Effect<number, DatabaseError> => {
  // Skips rows that another process is deleting or updating.
  const text = `
    with old as (
      select ${key} from ${schema}.${table} where ${old(instant("$1"))} limit $2 for update skip locked
    )
    delete from ${schema}.${table} where (${key}) in (select ${key} from old)`
  return purged(olderThan, batch, (before) =>
    Effect.map(
      mapErrors(sql.unsafe(text, [before, batch]).raw),
      (result) => (result as { readonly rowCount: number | null }).rowCount ?? 0
    )
  )
}
