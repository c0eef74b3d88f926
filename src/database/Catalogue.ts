import { Effect } from "effect"
import type { Database } from "./Database.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"

/** Each query returns lines of text. Together they cover everything in a schema that a migration can change. */
const describeColumns = (sql: (typeof Database.Service)["sql"], schema: string) =>
  sql<{ line: string }>`
    select format('table %s column %s %s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
      case when a.attnotnull then ' not null' else '' end,
      coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')) as line
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where c.relnamespace = ${schema}::regnamespace and c.relkind in ('r', 'p')
    order by c.relname, a.attnum`

const describeStorage = (sql: (typeof Database.Service)["sql"], schema: string) =>
  sql<{ line: string }>`
    select format('table %s with %s', relname, array_to_string(reloptions, ', ')) as line
    from pg_class
    where relnamespace = ${schema}::regnamespace and relkind in ('r', 'p') and reloptions is not null
    order by relname`

// PostgreSQL 18 also lists each NOT NULL as a constraint. `describeColumns` already includes them.
const describeConstraints = (sql: (typeof Database.Service)["sql"], schema: string) =>
  sql<{ line: string }>`
    select format('table %s constraint %s %s', conrelid::regclass::text, conname,
      -- Removes line breaks, which differ between server versions.
      regexp_replace(pg_get_constraintdef(oid), '\\s+', ' ', 'g')) as line
    from pg_constraint
    where connamespace = ${schema}::regnamespace and conrelid <> 0 and contype <> 'n'
    order by conrelid::regclass::text, conname`

const describeIndexes = (sql: (typeof Database.Service)["sql"], schema: string) =>
  sql<{ line: string }>`
    select pg_get_indexdef(i.indexrelid) as line
    from pg_index i join pg_class c on c.oid = i.indexrelid
    where c.relnamespace = ${schema}::regnamespace
    order by c.relname`

const describeFunctions = (sql: (typeof Database.Service)["sql"], schema: string) =>
  sql<{ line: string }>`
    select format('function %s(%s) returns %s set %s body %s', proname, pg_get_function_arguments(oid),
      pg_get_function_result(oid), replace(array_to_string(proconfig, ' '),
        'search_path=' || quote_ident(${schema}) || ',', 'search_path=its own,'), md5(coalesce(prosrc, '') || coalesce(pg_get_function_sqlbody(oid), ''))) as line
    from pg_proc
    where pronamespace = ${schema}::regnamespace
    order by proname`

const printing = [
  ["intervalstyle", "postgres"],
  ["datestyle", "ISO, MDY"],
  ["standard_conforming_strings", "on"],
  ["quote_all_identifiers", "off"],
  ["bytea_output", "hex"]
]

/** Describes a schema as sorted lines of text that are identical on every supported version of PostgreSQL. */
export const describe = (database: typeof Database.Service): Effect.Effect<ReadonlyArray<string>, DatabaseError> => {
  const { schema, sql, transaction } = database
  const parts = [describeColumns, describeStorage, describeConstraints, describeIndexes, describeFunctions]
  return transaction(
    Effect.gen(function* () {
      // With this search_path the server prints names without their schema. The other settings also affect the output,
      // and a role or a database may have changed them.
      for (const [setting, value] of [["search_path", schema], ...printing]) {
        yield* sql`select set_config(${setting}, ${value}, true)`
      }
      const lines = yield* Effect.forEach(parts, (part) => mapErrors(part(sql, schema)))
      return lines.flat().map(({ line }) => line.replaceAll(`${schema}.`, ""))
    })
  )
}
