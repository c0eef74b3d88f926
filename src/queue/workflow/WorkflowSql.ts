import { erasedKey, subjectKey } from "../../core/Subject.js"
import { instant, millis } from "../../database/SqlInstant.js"
import { hot, lockWait } from "../../database/Statements.js"
import { workChannel } from "../Wakeups.js"
import * as ChildrenSql from "./ChildrenSql.js"
import * as ExecutionListSql from "./ExecutionListSql.js"
import { executionColumns } from "./ExecutionListSql.js"
import { steps, undoes, waits } from "./JournalSql.js"
import { keep } from "./KeepSql.js"
import * as LifetimeSql from "./LifetimeSql.js"
import * as RetrySql from "./RetrySql.js"
import * as RunningStepSql from "./RunningStepSql.js"

// SQL statements of workflow executions. Locks are always taken in the same order: rows of workflow_child, then of
// workflow_deferred in the order of their key, then of job. Only FOR KEY SHARE, which a wake-up does not wait for, is taken
// on a job first. Jobs are locked in descending order of their ids, so children come before the parents that wait for them:
// the end of a child locks the child before its parent. Actions of operators lock all jobs that they reach, in this order,
// before anything else (TreeLockSql).

/** Tables whose rows belong to the job of an execution. */
export const stepTables = ["workflow_step", "workflow_stream", "workflow_chunk", "workflow_lifetime", "workflow_tag"]

/**
 * Deletes the logs, journal, streams, tags, waits and links of deleted jobs. For plain jobs all arrays but the first are empty
 * and nothing is read. Logs, steps, streams and tags stay where `keepsSteps` is true: the undo of the delete needs them.
 */
export const forgotten = (schema: string, old: string, keepsSteps = "false"): string => `forgotten_logs as (
    delete from ${schema}.job_log where job_id = any(array(select id from ${old} where not ${keepsSteps}))
  ), ${forgottenSteps(schema, old, keepsSteps)}`

/** The same without the logs. */
export const forgottenSteps = (schema: string, old: string, keepsSteps = "false"): string => {
  const executions = `any(array(select dedupe_key from ${old} where woken is not null))`
  const ids = `any(array(select id from ${old} where woken is not null and not ${keepsSteps}))`
  const ofJobs = (table: string) => `forgotten_${table} as (delete from ${schema}.${table} where job_id = ${ids})`
  return `${stepTables.map(ofJobs).join(", ")}, forgotten_waits as (
    delete from ${schema}.workflow_deferred where execution = ${executions}
  ), forgotten_children as (
    delete from ${schema}.workflow_child where parent = ${executions}
  ), forgotten_permits as (
    delete from ${schema}.workflow_permit where job_id = any(array(select id from ${old} where woken is not null))
  )`
}

/** Wakes the executions of `waits` that are complete. Returns the queues to notify. */
const wake = (schema: string, executions: string, now: string) => `
  locked as (
    select j.id from ${schema}.job j
    where j.dedupe_key = any(${executions}) and j.dedupe_scope = 'retained' and j.woken is not null and j.finished_at is null
      and (j.woken > 0 or j.lease is not null)
    order by j.id desc for no key update
  )
  update ${schema}.job j set woken = j.woken + 1,
    run_at = case when j.lease is null then least(j.run_at, ${instant(now)}) else j.run_at end
  from locked where j.id = locked.id
  returning j.queue`

/** Changes of a cancelled job. A pending execution stays pending: its next run undoes its steps. */
export const cancelSet = (now: string): string => {
  const dies = "j.status = 'pending' and j.woken is null"
  return `status = case when ${dies} then 'dead' else j.status end,
    dead_reason = case when ${dies} then 'cancelled' else j.dead_reason end,
    finished_at = case when ${dies} then ${now} else j.finished_at end,
    death_count = j.death_count + (case when ${dies} then 1 else 0 end),
    woken = j.woken + 1,
    run_at = case when j.woken is not null and j.lease is null then least(j.run_at, ${now}) else j.run_at end,
    cancel_requested_at = coalesce(j.cancel_requested_at, ${now})`
}

/** The executions and jobs that the jobs `$1` started and wait for, at any depth. */
const below = (schema: string) => `recursive tree(id) as (
    select c.child from ${schema}.job p join ${schema}.workflow_child c on c.parent = p.dedupe_key and c.owned
    where p.id = any($1::uuid[]) and p.woken is not null
    union
    select c.child from tree join ${schema}.job p on p.id = tree.id and p.woken is not null
    join ${schema}.workflow_child c on c.parent = p.dedupe_key and c.owned
  )`

export const make = (schema: string) => ({
  ...RetrySql.make(schema),
  ...RunningStepSql.make(schema),
  ...ChildrenSql.make(schema),
  ...LifetimeSql.make(schema),
  ...ExecutionListSql.make(schema),

  /** The journal and the waits for a run, as of the same instant as `woken`. */
  loadJournal: hot(`
  select r.place::int, j.woken, ${undoes} as cancelled, ${steps(schema, "j.id")} as steps,
    ${waits(schema, "j.dedupe_key")} as waits
  from unnest($1::uuid[], $2::uuid[]) with ordinality as r(id, lease, place)
  cross join lateral (select * from ${schema}.job where id = r.id and lease = r.lease limit 1) j`),

  /**
   * Records steps. The lock on the job keeps the checked lease valid until the commit: without it, a process that has
   * lost its lease could still record. If a step is already recorded, its existing row is returned.
   */
  recordSteps: hot(`
  with given as materialized (
    select * from rows from (unnest($1::uuid[]), unnest($2::uuid[]), unnest($3::text[]), unnest($4::smallint[]),
      unnest($5::int[]), unnest($6::text[]), unnest($7::text[]), jsonb_array_elements($8::jsonb), unnest($9::float8[]),
      unnest($10::float8[])) with ordinality
      as g(job_id, lease, name, attempt, sequence, kind, outcome, exit, started_at, retry_at, place)
  ), held as materialized (
    select j.* from (select distinct job_id, lease from given order by job_id) g
    cross join lateral (
      select id, attempt, crash_count from ${schema}.job where id = g.job_id and lease = g.lease for key share
    ) j
  ), calmed as (
    -- Attempts and crashes before this progress no longer count. Rarely changes a job.
    update ${schema}.job j set attempt = 1, crash_count = 0 from held
    where j.id = held.id and (held.attempt > 1 or held.crash_count > 0)
  ), stored as (
    insert into ${schema}.workflow_step (job_id, name, attempt, sequence, kind, outcome, exit, started_at, ended_at, retry_at)
    select g.job_id, g.name, g.attempt, g.sequence, g.kind, g.outcome, g.exit, ${instant("g.started_at")}, ${instant("$11")},
      ${instant("g.retry_at")}
    from given g join held on held.id = g.job_id
    on conflict do nothing
    returning job_id, name, attempt
  )
  select g.place::int, held.id is not null, s.outcome, s.exit
  from given g
  left join held on held.id = g.job_id
  left join stored on stored.job_id = g.job_id and stored.name = g.name and stored.attempt = g.attempt
  left join lateral (
    select outcome, exit from ${schema}.workflow_step
    where job_id = g.job_id and name = g.name and attempt = g.attempt and stored.name is null limit 1
  ) s on true
  order by 1`),

  /**
   * Suspends executions. All waits are inserted or locked first, those that ended included: this statement sees a completion
   * that is being committed, and a later completion finds the job suspended.
   */
  suspend: hot(`
  with ${lockWait("$16::text")}, closed as (
    delete from ${schema}.lease l where l.id = any($6::uuid[])
      and not exists (select from ${schema}.job j where j.id = any(l.jobs) and j.lease = l.id)
  ), e as materialized (
    select e.* from lock_wait
    cross join unnest($1::uuid[], $2::uuid[], $3::int[], $4::float8[], $7::text[], $12::boolean[], $13::text[], $14::text[])
      as e(id, lease, woken, run_at, error, caught_up, written_by, refused_by)
  ), held as materialized (
    select j.id, j.execution from e cross join lateral (
      select id, dedupe_key as execution from ${schema}.job where id = e.id and lease = e.lease for key share
    ) j
  ), given as materialized (
    select held.execution, w.kind, w.name, w.due_at, to_jsonb(w.on_limit) as exit
    from unnest($8::uuid[], $9::text[], $10::text[], $11::float8[], $15::text[]) as w(id, kind, name, due_at, on_limit)
    join held on held.id = w.id
  ), left_over as materialized (
    select d.execution, d.kind, d.name from ${schema}.workflow_deferred d
    -- Without other waits the run did not get as far as before: the next one must know what the execution waited for.
    where d.execution = any(array(select execution from given where kind <> 'changed')) and d.waiting
      and not exists (select from given g where (g.execution, g.kind, g.name) = (d.execution, d.kind, d.name))
  ), waited as (
    insert into ${schema}.workflow_deferred as d (execution, kind, name, due_at, exit, waiting, created_at)
    select execution, kind, name, ${instant("due_at")}, exit, waiting, ${instant("$5")} from (
      select given.*, true as waiting from given union all select left_over.*, null, null, false from left_over
    ) every_wait order by 1, 2, 3
    on conflict (execution, kind, name) do update set waiting = excluded.waiting,
      due_at = case when not excluded.waiting then d.due_at when d.kind in ('changed', 'limit', 'retry') then excluded.due_at
        else coalesce(d.due_at, excluded.due_at) end,
      exit = coalesce(excluded.exit, d.exit),
      created_at = case when excluded.waiting and (d.kind in ('changed', 'limit') and not d.waiting
        or d.kind = 'retry' and d.due_at is distinct from excluded.due_at) then excluded.created_at else d.created_at end
    returning execution, completed_at, waiting
  ), ready as materialized (
    -- Reads all of "waited", so that every wait is locked before the first job.
    select array_agg(execution) filter (where waiting and completed_at is not null) as executions from waited
  ), locked as materialized (
    select j.id, ready.executions from ready cross join (select id, lease from e order by id desc) e
    cross join lateral (
      select id from ${schema}.job where id = e.id and lease = e.lease for no key update
    ) j
  )
  update ${schema}.job j
  set status = 'pending', lease = null, pod_id = null, heartbeat_at = null, started_at = null, unknown_since = null,
    attempt = j.attempt - 1, woken = j.woken + 1, cut = case when e.caught_up then null else j.cut end,
    release = coalesce(e.written_by, nullif(j.release, e.refused_by)),
    last_error = coalesce(e.error, case when j.dying is not null then j.last_error end), updated_at = ${instant("$5")},
    run_at = case when j.woken > e.woken or j.dedupe_key = any(locked.executions)
      then ${instant("$5")} else ${instant("e.run_at")} end
  from e join locked on locked.id = e.id where j.id = e.id and j.lease = e.lease
  returning j.id, j.queue, ${millis("j.run_at")} as run_at`),

  /** Counts the end of the jobs `$1` in the waits of executions, and wakes executions whose children have all ended. */
  countEnds: hot(`
  with over as (
    select l.parent, l.name, l.position from ${schema}.workflow_child l
    where l.child = any($1::uuid[]) and l.ended_at is null
      and not exists (select from ${schema}.job j where j.id = l.child and j.finished_at is null)
    order by 1, 2, 3 for update
  ), marked as (
    update ${schema}.workflow_child l set ended_at = ${instant("$2")} from over
    where l.parent = over.parent and l.name = over.name and l.position = over.position
    returning l.parent, l.name
  ), waits as (
    update ${schema}.workflow_deferred d set remaining = d.remaining - counted.ends,
      completed_at = case when d.remaining - counted.ends <= 0 then ${instant("$2")} end
    from (select parent, name, count(*)::int as ends from marked group by 1, 2) counted
    where d.execution = counted.parent and d.kind = 'children' and d.name = counted.name
    returning d.execution, d.completed_at
  ), ${wake(schema, "array(select execution from waits where completed_at is not null)", "$2")}`),

  /**
   * Adds the names of the steps that are done and not undone to the errors of the executions `$1`, once. Which of these steps
   * have an undo is known to the code only.
   */
  nameNotUndone: `
  update ${schema}.job j set last_error = left(coalesce(j.last_error, ''), 2000) || '; not undone: ' || open.names
  from (
    select s.job_id, left(string_agg(s.name, ', ' order by s.sequence desc), 1000) as names
    from ${schema}.workflow_step s
    where s.job_id = any($1::uuid[]) and s.outcome = 'done' and s.kind in ('run', 'transaction', 'stream') and s.reopened_at is null
      and not (${RetrySql.isUndone(schema)})
    group by 1
  ) open
  where j.id = open.job_id and j.dead_reason = 'not_undone' and position('; not undone: ' in coalesce(j.last_error, '')) = 0`,

  /** Returns the outcome of each signal and the queue of its execution. Notifies that queue with the tag `$6`, if any. */
  completeDeferred: hot(`
  select c.outcome, c.queue,
    case when $6::text is not null and c.queue is not null
      then pg_notify('${workChannel(schema)}', c.queue || ' ' || $6)::text end
  from ${schema}.complete_deferred($1::text[], $2::text[], $3::text[], $4::jsonb, $5::float8) c`),

  wakeExecution: `with ${wake(schema, "$1::text[]", "$2")}`,

  /** Wakes the executions among the restored jobs `$1` whose waits ended while they were deleted. */
  wakeRestored: `with ${wake(
    schema,
    `array(select d.execution from ${schema}.job r join ${schema}.workflow_deferred d on d.execution = r.dedupe_key
      where r.id = any($1::uuid[]) and r.woken is not null and d.waiting and d.completed_at is not null)`,
    "$2"
  )}`,

  /** The job of an execution, by the execution's id or the job's. */
  findExecution: `
  select j.id from ${schema}.job j where j.dedupe_key = $1 and j.dedupe_scope = 'retained' and j.woken is not null
  union all select j.id from ${schema}.job j where j.id = $2::uuid and j.woken is not null
  limit 1`,

  showExecution: `
  select ${executionColumns(schema)}, ${steps(schema, "j.id")} as steps, ${waits(schema, "j.dedupe_key")} as deferreds
  from ${schema}.job j where j.id = $1`,

  /** Requests the cancellation of all jobs that the jobs `$1` started and wait for. Saves them under the act id `$3`. */
  cancelBelow: `
  with ${below(schema)}, chosen as (
    select * from ${schema}.job where id in (select id from tree) and finished_at is null order by id desc for update
  ), changed as (
    update ${schema}.job j set ${cancelSet(instant("$2"))}, updated_at = ${instant("$2")}
    from chosen where j.id = chosen.id
    returning j.id, j.queue, j.kind, j.status
  ), kept as (${keep(schema, "cancel", true)})
  select * from changed`,

  /** Ends the execution `$1` and all jobs below it without undoing any step. Their pods lose the lease. */
  cancelNow: `
  with ${below(schema)}, chosen as (
    select id from ${schema}.job
    where (id in (select id from tree) or id = any($1::uuid[])) and finished_at is null order by id desc for update
  )
  update ${schema}.job j set status = 'dead', dead_reason = 'cancelled', dying = null, finished_at = ${instant("$2")},
    death_count = j.death_count + 1, cancel_requested_at = coalesce(j.cancel_requested_at, ${instant("$2")}),
    lease = null, pod_id = null, heartbeat_at = null, updated_at = ${instant("$2")}, woken = greatest(j.woken + 1, j.woken),
    last_error = $3
  from chosen where j.id = chosen.id
  returning j.id, j.queue, j.kind, j.status, j.woken is not null as execution`,

  countBelow: `with ${below(schema)} select count(*)::int as count from tree join ${schema}.job j on j.id = tree.id
    where j.cancel_requested_at is not null`,

  forkSource: `
  select j.dedupe_key as execution, j.kind, j.version, j.queue, j.payload, j.max_attempts, j.priority, j.key, j.meta->>'${subjectKey}' as subject,
    j.meta->>'${erasedKey}' as erased, array(
    select s.name from ${schema}.workflow_step s where s.job_id = j.id group by s.name order by min(s.sequence)) as steps
  from ${schema}.job j where j.id = $1`,

  /**
   * Copies the journal of job `$1` before the step `$3` to job `$2`, with its number, its tags and the waits that are complete.
   * Steps that were undone run again.
   */
  copyJournal: `
  with cut as (
    select min(sequence) as sequence from ${schema}.workflow_step where job_id = $1 and name = $3
  ), steps as (
    insert into ${schema}.workflow_step (job_id, name, attempt, sequence, kind, outcome, exit, started_at, ended_at, retry_at,
      reopened_at)
    select $2, s.name, s.attempt, s.sequence, s.kind, s.outcome, s.exit, s.started_at, s.ended_at, s.retry_at,
      coalesce(s.reopened_at, case when ${RetrySql.isUndone(schema)} then ${instant("$6")} end)
    from ${schema}.workflow_step s cross join cut
    where s.job_id = $1 and s.sequence < cut.sequence and s.kind <> 'undo'
  ), waits as (
    insert into ${schema}.workflow_deferred (execution, kind, name, created_at, due_at, completed_at, remaining, exit,
      arrived, arrived_bytes, signal, value_id)
    select $5, d.kind, d.name, d.created_at, d.due_at, d.completed_at, d.remaining, d.exit, d.arrived, d.arrived_bytes, d.signal,
      d.value_id
    from ${schema}.workflow_deferred d
    where d.execution = $4 and (d.completed_at is not null or d.arrived is not null) and d.kind in ('signal', 'value')
  ), numbered as (
    insert into ${schema}.workflow_lifetime (job_id, continued)
    select $2, l.continued from ${schema}.workflow_lifetime l where l.job_id = $1 and l.continued > 0
  ), tags as (
    insert into ${schema}.workflow_tag (job_id, name, value)
    select $2, t.name, t.value from ${schema}.workflow_tag t where t.job_id = $1
  )
  -- The first run must read the journal.
  update ${schema}.job j set woken = 1 from cut where j.id = $2 and cut.sequence is not null returning j.id`,

  /**
   * Deletes old signals of executions that were never started, and unmarks those of executions that have started since. The
   * values of a signal are deleted together, when all are old: their numbers have no gaps. `arrived` of the first one, which
   * every sender locks, tells whether another has arrived meanwhile.
   */
  purgeEarly: `
  with old as materialized (
    select d.execution, d.kind, d.name, coalesce(d.signal, d.name) as signal, exists (
      select from ${schema}.job j where j.dedupe_key = d.execution and j.woken is not null) as started, (
      select f.arrived from ${schema}.workflow_deferred f
      where f.execution = d.execution and f.kind = 'signal' and f.name = coalesce(d.signal, d.name)) as arrived
    from ${schema}.workflow_deferred d where d.early and d.created_at < ${instant("$1")} and not exists (
      select from ${schema}.workflow_deferred n where n.execution = d.execution and n.kind in ('signal', 'value')
        and coalesce(n.signal, n.name) = coalesce(d.signal, d.name) and n.created_at >= ${instant("$1")})
    order by d.created_at limit $2::int
  ), known as (
    update ${schema}.workflow_deferred d set early = false from old
    where old.started and d.execution = old.execution and d.kind = old.kind and d.name = old.name
    returning 1
  ), whole as materialized (
    select f.execution, f.name from old join ${schema}.workflow_deferred f
      on f.execution = old.execution and f.kind = 'signal' and f.name = old.signal
    where not old.started and f.arrived is not distinct from old.arrived
    order by 1, 2 for update of f
  ), gone as (
    delete from ${schema}.workflow_deferred d using whole
    where d.execution = whole.execution and d.kind in ('signal', 'value') and coalesce(d.signal, d.name) = whole.name
    returning 1
  )
  select ((select count(*) from known) + (select count(*) from gone))::int as changed`,

  /** Deletes the values that arrived for the execution `$1`, and returns them in the order of their arrival. */
  takeEarly: `
  with gone as (
    delete from ${schema}.workflow_deferred d where d.execution = $1 and d.kind in ('signal', 'value')
    returning coalesce(d.signal, d.name) as name, d.kind, d.name as stored, d.exit::text as text, d.value_id as id
  )
  select name, text, id from gone order by name, kind, length(stored), stored`
})
