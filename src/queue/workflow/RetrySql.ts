import { erasedKey } from "../../core/Subject.js"
import { instant } from "../../database/SqlInstant.js"
import { keep } from "./KeepSql.js"

// SQL of the retry of failed and cancelled executions: their journal is reopened, and their failed children are retried.

/** Whether the step `s` was undone. A step whose undo failed was not. */
export const isUndone = (schema: string) => `s.outcome = 'done' and exists (
        select from ${schema}.workflow_step u
        where u.job_id = s.job_id and u.kind = 'undo' and u.outcome = 'done' and u.name = 'undo:' || s.name)`

/** Whether the children that the step `name` of the job `c` started were undone, whether or not the step succeeded. */
const areUndone = (schema: string, name: string) => `exists (
        select from ${schema}.workflow_step s join ${schema}.workflow_step u
          on u.job_id = s.job_id and u.kind = 'undo' and u.outcome = 'done' and u.name = 'undo:' || s.name
        where s.job_id = c.id and s.kind = 'children' and s.name = ${name} and s.reopened_at is null)`

/** Whether the wait `d` has a value of a signal that the execution of job `c` did not accept. */
const isInvalid = (schema: string) => `d.kind = 'signal' and exists (select from ${schema}.workflow_step s
        where s.job_id = c.id and s.kind = 'signal' and s.name = d.name and s.outcome = 'failed' and s.reopened_at is null)`

/**
 * Prepares the journal of requeued executions, rows of `chosen`, for another run. Failed and undone steps are reopened: they
 * run again in their place. Undos, attempts without a result, waits that did not end, signals with an invalid value, and
 * links to children that were undone are deleted. The row that counts the values of a signal stays, and its
 * wait begins anew.
 */
export const reopenFailed = (schema: string, chosen: string, now: string): string => `reopened_steps as (
    update ${schema}.workflow_step s set reopened_at = ${now}
    where s.job_id = any(array(select id from ${chosen} where woken is not null)) and s.kind <> 'undo' and s.reopened_at is null
      and (s.outcome = 'failed' or ${isUndone(schema)})
  ), forgotten_steps as (
    delete from ${schema}.workflow_step s where s.job_id = any(array(select id from ${chosen} where woken is not null))
      and (s.kind = 'undo' or s.outcome = 'retrying' and not exists (
        select from ${schema}.workflow_step l
        where l.job_id = s.job_id and l.name = s.name and l.attempt > s.attempt and l.outcome <> 'retrying'))
  ), forgotten_links as (
    delete from ${schema}.workflow_child l using ${chosen} c
    where c.woken is not null and l.parent = c.dedupe_key and ${areUndone(schema, "l.name")}
  ), forgotten_waits as (
    delete from ${schema}.workflow_deferred d using ${chosen} c
    where c.woken is not null and d.execution = c.dedupe_key and d.arrived is null
      and (d.completed_at is null and d.kind <> 'children' or d.kind = 'children' and ${areUndone(schema, "d.name")}
        or ${isInvalid(schema)})
  ), forgotten_values as (
    update ${schema}.workflow_deferred d set waiting = false, created_at = ${now}, due_at = null, completed_at = null, exit = null
    from ${chosen} c
    where c.woken is not null and d.execution = c.dedupe_key and d.arrived is not null
      and (d.completed_at is null or ${isInvalid(schema)})
  ), passed_waits as (
    -- Steps that run again may lead the code past the waits. Those deleted above are not open.
    update ${schema}.workflow_deferred d set waiting = false from ${chosen} c
    where c.woken is not null and d.execution = c.dedupe_key and d.waiting
      and (d.completed_at is not null or d.kind = 'children')
      and not (d.kind = 'children' and ${areUndone(schema, "d.name")}) and not (${isInvalid(schema)})
  )`

/** Whether the data of the job was not erased. */
export const isWhole = (job: string): string => `not coalesce(${job}.meta ? '${erasedKey}', false)`

/** Changes of a requeued job. */
export const requeueSet = (
  at: string
): string => `status = 'pending', attempt = 0, crash_count = 0, dead_reason = null, dying = null, cut = null,
    finished_at = null, started_at = null, pod_id = null, cancel_requested_at = null, unknown_since = null, result = null,
    progress = null, last_error = null, woken = j.woken + 1, run_at = ${at}`

/**
 * Whether a retry of the parent, job `parent`, includes the child of link `l`: a child that the parent started and waits
 * for, or one that made its step fail. Detached children are neither.
 */
export const isRetriedWith = (schema: string, parent: string) => `(l.owned or exists (
      select from ${schema}.workflow_step s
      where s.job_id = ${parent} and s.name = l.name and s.kind = 'children' and s.outcome = 'failed'))`

/**
 * Makes executions wait again for the children of the links `linked` that have not ended. The lock waits for children that
 * are ending, whose end is not counted; those that end later see that they are counted again.
 */
const awaiting = (schema: string, linked: string) => `
  with linked as materialized (
    ${linked}
  ), standing as materialized (
    select j.id from ${schema}.job j
    where j.id = any(array(select child from linked)) and j.finished_at is null order by j.id desc for share
  ), counted as (
    update ${schema}.workflow_child l set ended_at = null
    from linked join standing on standing.id = linked.child
    where l.parent = linked.parent and l.name = linked.name and l.position = linked.position
    returning l.parent, l.name, linked.job_id
  ), reopened as (
    update ${schema}.workflow_step s set reopened_at = ${instant("$2")}
    from (select distinct job_id, name from counted) c
    where s.job_id = c.job_id and s.name = c.name and s.kind = 'children' and s.reopened_at is null
  )
  -- A wait with an exit is one for the first child.
  update ${schema}.workflow_deferred d set completed_at = null,
    remaining = case when d.exit is null then greatest(d.remaining, 0) + c.ends else 1 end
  from (select parent, name, count(*)::int as ends from counted group by 1, 2) c
  where d.execution = c.parent and d.kind = 'children' and d.name = c.name`

export const make = (schema: string) => ({
  /**
   * Requeues the dead children of the requeued executions `$1`, and the dead children of those. Saves them under the
   * act id `$3`.
   */
  requeueBelow: `
  with recursive tree(id, execution, above) as (
    select j.id, j.dedupe_key, true from ${schema}.job j where j.id = any($1::uuid[]) and j.woken is not null
    union
    select j.id, case when j.woken is not null then j.dedupe_key end, false
    from tree join ${schema}.workflow_child l on l.parent = tree.execution and ${isRetriedWith(schema, "tree.id")}
    join ${schema}.job j on j.id = l.child and j.status = 'dead' and ${isWhole("j")}
  ), chosen as (
    select * from ${schema}.job where id in (select id from tree where not above) and status = 'dead' order by id desc for update
  ), ${reopenFailed(schema, "chosen", instant("$2"))}, changed as (
    update ${schema}.job j set ${requeueSet(instant("$2"))}, updated_at = ${instant("$2")}
    from chosen where j.id = chosen.id
    returning j.id, j.queue
  ), kept as (${keep(schema, "requeue", true)})
  select * from changed`,

  /** Makes the requeued executions `$1` wait again for children that were requeued. */
  awaitAgain: awaiting(
    schema,
    `select l.parent, l.name, l.position, l.child, j.id as job_id
    from ${schema}.job j join ${schema}.workflow_child l on l.parent = j.dedupe_key
    where j.id = any($1::uuid[]) and j.woken is not null and l.ended_at is not null and ${isRetriedWith(schema, "j.id")}`
  ),

  /**
   * Makes executions wait again for the restored jobs `$1`, and the restored executions among them for their children,
   * unless the execution has recorded the end of that wait.
   */
  awaitRestored: awaiting(
    schema,
    `select l.parent, l.name, l.position, l.child, p.id as job_id
    from ${schema}.workflow_child l join ${schema}.job p
      on p.dedupe_key = l.parent and p.dedupe_scope = 'retained' and p.woken is not null and p.finished_at is null
    where (l.child = any($1::uuid[]) or p.id = any($1::uuid[])) and l.ended_at is not null and not exists (
      select from ${schema}.workflow_step s
      where s.job_id = p.id and s.name = l.name and s.kind = 'children' and s.reopened_at is null)`
  ),

  /** Children that the restored executions `$1` wait for, without those that the undo of the act `$2` restores after `$3`. */
  openChildren: `
  select l.child from ${schema}.job p join ${schema}.workflow_child l on l.parent = p.dedupe_key
  where p.id = any($1::uuid[]) and p.woken is not null and l.ended_at is null and not exists (
    select from ${schema}.job_undo u where u.act = $2 and u.job_id = l.child and u.job_id > $3::uuid)`
})
