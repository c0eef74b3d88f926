import { instant } from "../../database/SqlInstant.js"
import { storedColumns } from "../JobSql.js"

// Statements that restore jobs which were saved before an action.

/** The columns that undo writes. */
const restored = [
  "status",
  "run_at",
  "attempt",
  "crash_count",
  "death_count",
  "dead_reason",
  "dying",
  "cut",
  "started_at",
  "pod_id",
  "finished_at",
  "cancel_requested_at",
  "unknown_since",
  "result",
  "progress",
  "last_error",
  // An enqueue takes the key of an ended job whose window is over. The unique index then refuses the undo.
  "dedupe_key",
  "dedupe_scope",
  "dedupe_until"
]

const restoring = `${restored.map((column) => `${column} = kept.${column}`).join(", ")}, updated_at = ${instant("$3")}`

/** The saved jobs of the act `$1` among the ids `$2`, with the time of the act as `acted_at`. */
const kept = (schema: string) => `
    select r.*, u.at as acted_at, u.action from ${schema}.job_undo u
    cross join lateral jsonb_populate_record(null::${schema}.job, u.before) r
    where u.act = $1 and u.job_id = any($2::uuid[]) and not u.below
    order by u.job_id for update of u`

/** The status in which the act left the job `kept`. A cancelled execution stays pending until its next run. */
const leftAs = "case when kept.action = 'cancel' and kept.woken is null then 'dead' else 'pending' end"

/**
 * Restores the jobs that have not changed since the act, and returns them. The statement fails if the id or dedupe key
 * of a deleted job is taken.
 */
export const restore = (schema: string): string => `
  with kept as (${kept(schema)}
  ), changed as (
    update ${schema}.job j set ${restoring}
    from kept
    where j.id = kept.id and kept.action <> 'delete' and j.updated_at = kept.acted_at and j.status = ${leftAs}
    returning ${storedColumns}
  ), missing as (
    select u.before, u.execution from ${schema}.job_undo u join kept on kept.id = u.job_id
    where u.act = $1 and kept.action = 'delete' and not exists (select from ${schema}.job other where other.id = kept.id)
  ), revived as (
    insert into ${schema}.job as j select (jsonb_populate_record(null::${schema}.job, before)).* from missing
    returning ${storedColumns}
  ), waits as (
    -- A signal that was sent meanwhile is kept.
    insert into ${schema}.workflow_deferred as d
    select w.* from missing cross join jsonb_populate_recordset(null::${schema}.workflow_deferred, execution->'waits') w
    on conflict (execution, kind, name) do update set created_at = excluded.created_at, due_at = excluded.due_at,
      waiting = excluded.waiting, remaining = excluded.remaining, early = false,
      arrived = greatest(excluded.arrived, d.arrived),
      arrived_bytes = greatest(excluded.arrived_bytes, d.arrived_bytes),
      completed_at = coalesce(excluded.completed_at, d.completed_at),
      exit = case when excluded.completed_at is null then d.exit else excluded.exit end
  ), links as (
    insert into ${schema}.workflow_child
    select l.* from missing cross join jsonb_populate_recordset(null::${schema}.workflow_child, execution->'children') l
  ), used as (
    delete from ${schema}.job_undo u using (select id from changed union all select id from revived) restored
    where u.act = $1 and u.job_id = restored.id
  )
  select * from changed union all select * from revived`

/**
 * Restores the children of the restored executions `$2` that the act `$1` requeued or cancelled with them, if they have not
 * changed since. A requeued child stays if another execution waits for it.
 */
export const restoreBelow = (schema: string): string => `
  with kept as (
    select r.*, u.at as acted_at, u.action from ${schema}.job_undo u
    cross join lateral jsonb_populate_record(null::${schema}.job, u.before) r
    where u.act = $1 and u.below and u.job_id = any(array(
      select l.child from ${schema}.job p join ${schema}.workflow_child l on l.parent = p.dedupe_key
      where p.id = any($2::uuid[]) and p.woken is not null))
    order by u.job_id for update of u
  ), changed as (
    update ${schema}.job j set ${restoring}
    from kept
    where j.id = kept.id and j.updated_at = kept.acted_at and j.status = ${leftAs} and not (kept.action = 'requeue' and exists (
      select from ${schema}.workflow_child l join ${schema}.job p on p.dedupe_key = l.parent and p.woken is not null
      where l.child = j.id and l.ended_at is null and p.finished_at is null))
    returning j.id
  ), used as (
    delete from ${schema}.job_undo u using changed where u.act = $1 and u.job_id = changed.id
  )
  select id from changed`
