import { instant } from "../../database/SqlInstant.js"
import { storedColumns } from "../JobSql.js"
import type { Action } from "./Operations.js"

// Statements that save a job before an action and restore it afterwards.

/** Columns that only delete changes. Undoing another action does not write them. */
const untouched = "{payload,meta,on_dead,history}"

/** The columns that undo writes. */
const restored = [
  "status",
  "run_at",
  "attempt",
  "crash_count",
  "death_count",
  "dead_reason",
  "started_at",
  "pod_id",
  "finished_at",
  "cancel_requested_at",
  "unknown_since",
  "result",
  "progress",
  "last_error"
]

/** The saved form of a job row. */
const keptRow = (action: Action, row: string) =>
  action === "delete" ? `to_jsonb(${row})` : `to_jsonb(${row}) - '${untouched}'::text[]`

/**
 * Saves the rows of `chosen` that appear in `changed` under the act id `$3`, or none if it is null. Running jobs cannot
 * be restored, because their handlers were asked to stop; nor can deleted executions, which would repeat their steps
 * without their journal.
 */
export const keep = (schema: string, action: Action): string => `
    insert into ${schema}.job_undo (act, job_id, at, action, before)
    select $3::uuid, chosen.id, ${instant("$2")}, '${action}', ${keptRow(action, "chosen")}
    from chosen join changed on changed.id = chosen.id
    where $3::uuid is not null and chosen.status <> 'running'${action === "delete" ? " and chosen.woken is null" : ""}
    on conflict do nothing`

/** The saved jobs of the act `$1` among the ids `$2`, with the time of the act as `acted_at`. */
const kept = (schema: string) => `
    select r.*, u.at as acted_at, u.action from ${schema}.job_undo u
    cross join lateral jsonb_populate_record(null::${schema}.job, u.before) r
    where u.act = $1 and u.job_id = any($2::uuid[])
    order by u.job_id for update of u`

/**
 * Restores the jobs that have not changed since the act, and returns them. The statement fails if the id or dedupe key
 * of a deleted job is taken.
 */
export const restore = (schema: string): string => `
  with kept as (${kept(schema)}
  ), changed as (
    update ${schema}.job j set ${restored.map((column) => `${column} = kept.${column}`).join(", ")},
      updated_at = ${instant("$3")}
    from kept
    where j.id = kept.id and kept.action <> 'delete' and j.updated_at = kept.acted_at
      and j.status = case kept.action when 'cancel' then 'dead' else 'pending' end
    returning ${storedColumns}
  ), revived as (
    insert into ${schema}.job as j select (jsonb_populate_record(null::${schema}.job, u.before)).*
    from ${schema}.job_undo u join kept on kept.id = u.job_id
    where u.act = $1 and kept.action = 'delete' and not exists (select from ${schema}.job other where other.id = kept.id)
    returning ${storedColumns}
  ), used as (
    delete from ${schema}.job_undo u using (select id from changed union all select id from revived) restored
    where u.act = $1 and u.job_id = restored.id
  )
  select * from changed union all select * from revived`
