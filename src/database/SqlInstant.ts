import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"

// Instants and durations are exchanged with the database as milliseconds, in both directions. `pg_catalog` is spelled out
// because a schema in the search_path may have its own to_timestamp.

/** A parameter or expression in epoch milliseconds, as a timestamptz. */
export const instant = (millis: string): string => `pg_catalog.to_timestamp(${millis}::float8 / 1000)`

/** A parameter or expression in milliseconds, as an interval. */
export const span = (millis: string): string => `make_interval(secs => ${millis}::float8 / 1000)`

/** A timestamptz as whole epoch milliseconds, or an interval as whole milliseconds. */
export const millis = (column: string): string => `floor(extract(epoch from ${column}) * 1000)::float8`

/** A timestamptz in exact microseconds, only to detect changes. */
export const micros = (column: string): string => `(extract(epoch from ${column}) * 1000000)::bigint`

/** The same as fragments of the SQL client. An absent instant is null. */
export const fragments = (sql: SqlClient) => ({
  instant: (millis: number | undefined): Fragment => sql`pg_catalog.to_timestamp(${millis ?? null}::float8 / 1000)`,
  millis: (column: string): Fragment => sql.literal(millis(column))
})
