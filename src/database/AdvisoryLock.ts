/**
 * SQL for the key of an advisory lock. `id` is an SQL expression of type text. Advisory locks belong to a database, so locks of
 * other databases do not conflict.
 */
export const key = (schema: string, what: string, id: string): string =>
  `pg_catalog.hashtextextended('${schema}.${what}.' || ${id}, 0)`
