import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import { isId } from "../../core/Ids.js"
import type { State } from "../../core/StoredJob.js"
import type { Database } from "../../database/Database.js"
import { fragments } from "../../database/SqlInstant.js"
import { isUnstorable } from "../NewJob.js"
import { hasShape } from "./ErrorShape.js"
import { choices, type JobFilter, statesOf } from "./JobFilter.js"

const stateIs = (sql: SqlClient, schema: string, state: State, now: number): Fragment => {
  const at = fragments(sql).instant(now)
  switch (state) {
    case "scheduled":
      // A job that is not due yet was not due when it was stored either, so it is in the index of scheduled jobs.
      return sql`(j.finished_at is null and j.status = 'pending' and j.last_error is null and j.run_at > ${at}
        and j.run_at > j.created_at)`
    case "pending":
      return sql`(j.finished_at is null and j.status = 'pending' and j.last_error is null and j.run_at <= ${at})`
    case "retrying":
      return sql`(j.finished_at is null and j.status = 'pending' and j.last_error is not null)`
    case "running":
      // No index covers running jobs; the lease table lists them.
      return sql`(j.finished_at is null and j.status = 'running'
        and j.id = any(array(select unnest(jobs) from ${sql(`${schema}.lease`)})))`
    case "done":
      return sql`(j.finished_at is not null and j.status = 'done')`
    case "dead":
      // Matches the predicate of the dead job indexes, as the next one does for cancelled jobs.
      return sql`j.dead_reason <> 'cancelled'`
    case "cancelled":
      return sql`j.dead_reason = 'cancelled'`
  }
}

/** PostgreSQL rejects this text as a parameter, so no job can match it. */
const isNowhere = (filter: JobFilter) =>
  [
    ...(choices(filter.queue) ?? []),
    ...(choices(filter.kind) ?? []),
    filter.text ?? "",
    filter.search ?? "",
    filter.shape ?? "",
    filter.dedupe ?? "",
    filter.key ?? "",
    filter.payload === undefined ? "" : JSON.stringify(filter.payload)
  ].some((text) => isUnstorable(text) || text.includes("\\u0000"))

/** Converts a filter to conditions on the job table, aliased as `j`. */
export const conditions = (
  { schema, sql }: Pick<typeof Database.Service, "schema" | "sql">,
  filter: JobFilter,
  now: number
): ReadonlyArray<Fragment> => {
  if (isNowhere(filter)) return [sql`false`]
  const all: Array<Fragment> = [sql`true`]
  const { instant } = fragments(sql)

  const among = (column: string, field: string | ReadonlyArray<string> | undefined) => {
    const [first, ...others] = choices(field) ?? []
    if (field === undefined) return
    if (first === undefined) all.push(sql`false`)
    else if (others.length === 0) all.push(sql`${sql.literal(column)} = ${first}`)
    else all.push(sql`${sql.literal(column)} = any(${[first, ...others]}::text[])`)
  }

  const states = statesOf(filter)?.map((state) => stateIs(sql, schema, state, now))
  among("j.queue", filter.queue)
  among("j.kind", filter.kind)
  if (states !== undefined) all.push(states.length === 0 ? sql`false` : sql.or(states))
  among("j.dead_reason", filter.reason)
  if (filter.since !== undefined) all.push(sql`j.created_at >= ${instant(filter.since)}`)
  if (filter.until !== undefined) all.push(sql`j.created_at < ${instant(filter.until)}`)
  if (filter.diedBefore !== undefined) all.push(sql`j.finished_at < ${instant(filter.diedBefore)}`)
  if (filter.dedupe !== undefined) all.push(sql`j.dedupe_key = ${filter.dedupe}`)
  if (filter.key !== undefined) all.push(sql`j.key = ${filter.key}`)
  if (filter.pod !== undefined) all.push(isId(filter.pod) ? sql`j.pod_id = ${filter.pod}` : sql`false`)
  if (filter.payload !== undefined) all.push(sql`j.payload @> ${JSON.stringify(filter.payload)}::jsonb`)
  if (filter.text !== undefined) all.push(sql`position(lower(${filter.text}) in lower(j.last_error)) > 0`)
  if (filter.search !== undefined) {
    const found = (column: string) => sql`position(lower(${filter.search ?? ""}) in lower(${sql.literal(column)})) > 0`
    const keys = [sql`j.dedupe_key = ${filter.search}`, sql`j.key = ${filter.search}`]
    all.push(sql.or([...keys, found("j.id::text"), found("j.kind"), found("j.last_error")]))
  }
  if (filter.shape !== undefined) all.push(hasShape(sql, schema, filter.shape))
  if (filter.batch !== undefined) all.push(sql`j.batch_id = ${filter.batch}`)
  return all
}
