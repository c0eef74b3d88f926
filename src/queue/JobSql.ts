import { cancelledLate, limits } from "../core/StoredJob.js"
import { instant, micros, millis } from "../database/SqlInstant.js"
import { few, hot, lockWait, opaque } from "../database/Statements.js"
import * as InsertSql from "./enqueue/InsertSql.js"
import * as FollowUpSql from "./FollowUpSql.js"
import { progressColumn, resultColumn } from "./StoredJobRow.js"
import { columns as queueColumns } from "./settings/QueueSql.js"
import { isLinked } from "./workflow/JournalSql.js"
import * as WorkflowSql from "./workflow/WorkflowSql.js"

// SQL statements for the life cycle of a job. `schema` is an identifier that needs no quoting (DatabaseConfig validates
// it), so it is interpolated; everything else is a parameter. Times are passed as epoch milliseconds.

/**
 * Appends an entry to the bounded history. `now` is the parameter with the end time. What another program wrote is replaced if
 * it is no array: its length is an error, which would keep other jobs from ending.
 */
const appendHistory = (outcome: string, message: string, now: string) => `
  case when jsonb_typeof(j.history) is distinct from 'array' then '[]'
    when jsonb_array_length(j.history) >= ${limits.historyEntries} then j.history - 0
    else j.history end
  || (jsonb_build_object('attempt', j.attempt, 'pod', j.pod_id, 'startedAt', ${millis("j.started_at")},
    'endedAt', ${now}::float8, 'outcome', ${outcome}) || case when ${message} is null then '{}'::jsonb
    else jsonb_build_object('message', ${message}) end)`

/**
 * Matches jobs that are neither finished nor claimed. It does not mention the status: that would keep the planner from
 * using the claim index.
 */
const waiting = "finished_at is null and lease is null"

/** A cancelled execution ends only when it has undone its steps. All other jobs end when they are cancelled. */
const isPlain = "j.woken is null"

/** The attempt of an execution that dies after it has undone its steps. */
const isDying = "e.verb = 'again' and e.reason is not null"

/** Null for jobs that are not executions. */
const nextWoken = "j.woken + 1"

/**
 * The result of an end `e`: done, pending, or the reason the job is dead. `$10` is the end time. An execution that is dying is
 * dead for its first reason.
 */
const endState = `case when e.verb = 'done' then 'done'
        when e.verb = 'dead' and (e.reason = 'not_undone' or j.dying is not null)
          then case when e.reason = 'not_undone' then e.reason else j.dying end
        when j.cancel_requested_at is not null and (${isPlain} or e.verb = 'dead') then 'cancelled'
        when e.verb = 'dead' then e.reason
        when j.unknown_since <= ${instant("($10::float8 - e.unknown_timeout)")} then 'unknown_kind'
        else 'pending' end`

/**
 * When a job that returns to the queue is due. A job whose kind the pod does not know is due sooner at first: another
 * pod may have its handler. The delay is the time since the first such claim, from half a second up to the one
 * requested.
 */
const dueAgain = `case when e.unknown_timeout is null then ${instant("e.run_at")} else least(${instant("e.run_at")},
        ${instant("$10")} + greatest(interval '0.5 s', ${instant("$10")} - coalesce(j.unknown_since, ${instant("$10")}))) end`

/** Outcome recorded in the history: what actually happened, if that differs from what the pod reported. */
const remember = `case when e.verb = 'done' and j.cancel_requested_at is not null then 'done'
        when e.verb = 'dead' and j.cancel_requested_at is not null and e.remember = e.reason then 'cancelled'
        when e.verb = 'again' and ${endState} = 'unknown_kind' then 'unknown_kind'
        else e.remember end`

/** Recorded with a success whose cancel was requested too late. */
const message = `case when e.verb = 'done' then '${cancelledLate}' else e.error end`

/**
 * Deletes finished leases. Keeps a lease with a running job: a failover may have lost the commit that ended the job.
 * Reads one job per statement that ended jobs of the lease (HeldLeases), because a lost commit loses the ends of all
 * jobs of its statement.
 */
const closed = (schema: string, leases: string, witnesses: string) => `closed as (
    delete from ${schema}.lease l where l.id = any(${opaque(leases)}::uuid[])
      and l.id not in (
        select j.lease from unnest(${opaque(witnesses)}) with ordinality as witness(id, place)
        join ${schema}.job j on j.id = witness.id
        where j.lease is not null and ${few("place")})
  )`

/** Whether the job reached the limit of crashes. An execution then runs again to undo its steps, with a new count. */
const isPoison = "j.crash_count + 1 >= $4"

/** The last sign of life of a job `j` under its lease `l`. */
const beat = "greatest(j.heartbeat_at, case when j.id = any(l.locked) then l.locked_beat end)"

/** Whether a job whose pod ended dies. */
const isLast = `case when ${isPlain} then j.cancel_requested_at is not null or ${isPoison}
        else ${isPoison} and (j.cancel_requested_at is not null or j.dying is not null) end`

/** The running jobs `j` of those of the pods `$1` that have no row. One with a row has come back, and keeps its jobs. */
const orphans = (schema: string) => `${schema}.lease l
    cross join unnest(l.jobs) as taken(id)
    join ${schema}.job j on j.id = taken.id and j.lease = l.id
    where l.pod_id = any($1::uuid[]) and not exists (select from ${schema}.pod p where p.id = l.pod_id)`

/**
 * A crash is not a failed attempt: the attempt is restored and the crash counted, until the job is quarantined as
 * poison. An execution that should undo its steps and reaches the limit again is dead as not undone.
 */
const recover = (schema: string, stuck: string) => `
  with ${stuck}, ended as (
    update ${schema}.job j
    set
      status = case when ${isLast} then 'dead' else 'pending' end,
      dead_reason = case when not (${isLast}) then null when not ${isPlain} then 'not_undone'
        when j.cancel_requested_at is not null then 'cancelled' else 'poison' end,
      cut = case when j.woken is not null then true end,
      dying = case when not (${isLast}) then coalesce(j.dying, case when ${isPoison} then 'poison' end) end,
      death_count = j.death_count + (case when ${isLast} then 1 else 0 end),
      finished_at = case when ${isLast} then ${instant("$2")} end,
      woken = ${nextWoken},
      crash_count = case when ${isPoison} and not (${isLast}) then 0 else j.crash_count + 1 end,
      attempt = j.attempt - 1,
      history = ${appendHistory("'crashed'", "null::text", "$2")},
      last_error = 'process ' || j.pod_id || ' ended while this job ran (crash ' || j.crash_count + 1 || ' of ' || $4::int || ')',
      run_at = least(j.run_at, ${instant("$2")}),
      lease = null, pod_id = null, heartbeat_at = null, updated_at = ${instant("$2")}
    from stuck where j.id = stuck.id
    returning j.id, j.queue, j.kind, j.status, j.dead_reason, j.death_count, j.on_dead, j.last_error, j.woken,
      j.is_child, j.version, j.payload, ${FollowUpSql.subjectOfDead}
  ), postponed as (${FollowUpSql.postponed(schema, "ended", "$2")}
  ), followed as (${FollowUpSql.followUps(schema, "ended", "$2")})
  select queue, kind, coalesce(dead_reason, 'rescued') as fate, count(*)::int as count,
    array_agg(id) filter (where status = 'dead' and ${isLinked("ended")}) as linked
  from ended group by 1, 2, 3
  union all select queue, kind, 'follow-up', count(*)::int, null from followed group by 1, 2
  union all select queue, kind, 'no follow-up', count(*)::int, array_agg(id) from ${FollowUpSql.unsound("ended")} group by 1, 2`

export const storedColumns = `j.id, j.queue, j.kind, j.version, j.payload, j.key, j.status, j.priority, j.attempt,
  j.max_attempts, j.crash_count, j.dedupe_key, j.dedupe_scope, j.pod_id, j.on_dead, ${resultColumn}, ${progressColumn}, j.last_error,
  j.history, j.dead_reason, j.meta, j.batch_id, j.woken, j.is_child, ${millis("j.run_at")} as run_at, ${millis("j.created_at")} as created_at,
  ${millis("j.updated_at")} as updated_at, ${millis("j.started_at")} as started_at,
  ${millis("j.heartbeat_at")} as heartbeat_at, ${millis("j.finished_at")} as finished_at,
  ${millis("j.cancel_requested_at")} as cancel_requested_at`

export const make = (schema: string) => ({
  // A job with a lease is running, so these statements do not test the status: the planner should see one access path,
  // the primary key.

  /** Fails with `lock_not_available` if another transaction has locked one of these jobs. */
  lockAtOnce: `
  select from unnest($1::uuid[], $2::uuid[]) as e(id, lease)
  join ${schema}.job j on j.id = e.id and j.lease = e.lease
  for no key update of j nowait`,

  /** The common case: done without a result. Also deletes leases whose last job ended. */
  finish: hot(`
  with ${lockWait("$6::text")}, ${closed(schema, "$4::uuid[]", "$5::uuid[]")}
  update ${schema}.job j
  set status = 'done', lease = null, heartbeat_at = null, last_error = null,
    history = case when j.cancel_requested_at is null then j.history
      else ${appendHistory("'done'", `'${cancelledLate}'`, "$3")} end,
    finished_at = ${instant("$3")}, updated_at = ${instant("$3")}
  from lock_wait, unnest(${opaque("$1::uuid[]")}, ${opaque("$2::uuid[]")}) with ordinality as e(id, lease, place)
  where j.id = e.id and j.lease = e.lease and ${few("place")}`),

  /** Returns the jobs that did not end at this time: their lease was lost. */
  notFinished: `
  select e.id from unnest($1::uuid[]) as e(id)
  left join ${schema}.job j on j.id = e.id and j.status = 'done' and j.finished_at = ${instant("$2")}
  where j.id is null`,

  /** Returns the jobs that were finalized at this time and have not changed since. */
  writtenAt: `
  select id, status, dead_reason from ${schema}.job
  where id = any($1::uuid[]) and updated_at = ${instant("$2")} and lease is null`,

  /** All other ends, except those of children if $16 is true. A job whose cancellation was requested ends as done or cancelled. */
  finalize: hot(`
  with ${lockWait("$15::text")}, ${closed(schema, "$11::uuid[]", "$13::uuid[]")}, e as (
    select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::float8[], $5::boolean[], $6::text[], $7::text[],
      $8::text[], $9::text[], $12::float8[], $14::text[])
      with ordinality as
      e(id, lease, verb, run_at, counted, error, remember, reason, result, unknown_timeout, follow_up, place)
    where ${few("place")}
  ), ended as (
    update ${schema}.job j
    set
      status = case ${endState} when 'done' then 'done' when 'pending' then 'pending' else 'dead' end,
      dead_reason = case when ${endState} not in ('done', 'pending') then ${endState} end,
      -- A run without an entry in the history was returned unstarted.
      cut = case when j.woken is not null and e.remember is not null and e.verb = 'again' then true else j.cut end,
      dying = case when ${endState} = 'pending'
        then coalesce(j.dying, case when j.cancel_requested_at is null then e.reason end) end,
      death_count = j.death_count + (case when ${endState} in ('done', 'pending') then 0 else 1 end),
      finished_at = case when ${endState} = 'pending' then null else ${instant("$10")} end,
      -- The first pod without a handler sets the time; later pods keep it.
      unknown_since = case when e.unknown_timeout is not null then coalesce(j.unknown_since, ${instant("$10")}) end,
      run_at = case when e.verb = 'again' then ${dueAgain} else j.run_at end,
      attempt = case when ${isDying} then 0 else j.attempt - (case when e.counted then 0 else 1 end) end,
      crash_count = case when ${isDying} then 0 else j.crash_count end,
      woken = ${nextWoken},
      result = case when e.verb = 'done' then e.result::jsonb else j.result end,
      last_error = case when e.verb = 'done' then null else coalesce(e.error, j.last_error) end,
      history = case when ${remember} is null then j.history else ${appendHistory(remember, message, "$10")} end,
      on_dead = case when e.follow_up is not null and ${FollowUpSql.isComputed("j.on_dead")} then e.follow_up::jsonb else j.on_dead end,
      lease = null, pod_id = case when ${endState} = 'done' then j.pod_id end, heartbeat_at = null,
      updated_at = ${instant("$10")}
    from lock_wait, e
    where j.id = e.id and j.lease = e.lease and not ($16::boolean and j.is_child is true)
    returning j.id, j.queue, j.kind, j.status, j.dead_reason, j.death_count, j.on_dead, j.last_error, j.version,
      case when ${FollowUpSql.isComputed("j.on_dead")} then j.payload end as payload, ${FollowUpSql.subjectOfDead}
  ), postponed as (${FollowUpSql.postponed(schema, "ended", "$10")}
  ), followed as (${FollowUpSql.followUps(schema, "ended", "$10")})
  select id, queue, null as kind, status, dead_reason from ended
  union all select null, queue, kind, 'follow-up', null from followed
  union all select id, queue, kind, 'no follow-up', null from ${FollowUpSql.unsound("ended")}`),

  /** A row that another transaction has locked keeps its heartbeat. The lease row says instead that its pod lives. */
  heartbeat: hot(`
  with held as (
    select j.id, j.lease, j.cancel_requested_at is not null as cancel
    from unnest($1::uuid[], $2::uuid[]) with ordinality as h(id, lease, place)
    join ${schema}.job j on j.id = h.id and j.lease = h.lease
    where ${few("place")}
  ), free as (
    -- Check the lease again on the locked row: the attempt may have ended since this statement started.
    select j.id, j.lease from ${schema}.job j join held on held.id = j.id and held.lease = j.lease
    for update of j skip locked
  ), renewed as (
    update ${schema}.job j set heartbeat_at = ${instant("$3")} from free where j.id = free.id and j.lease = free.lease
    returning j.id
  ), waiting as (
    select held.lease, array_agg(held.id) as jobs from held
    where not exists (select from renewed where renewed.id = held.id) group by held.lease
  ), renewed_lease as (
    update ${schema}.lease l set locked = waiting.jobs, locked_beat = ${instant("$3")}
    from waiting where l.id = waiting.lease
  )
  select lease, id, cancel from held`),

  progress: `
  update ${schema}.job set progress = $3::jsonb, updated_at = ${instant("$4")}
  where id = $1 and lease = $2`,

  /** Returns when the next job of each queue is due (after a given time, if any), together with the queue's row. */
  nextDue: hot(`
  select line.queue, (
    with recursive step(priority) as (
      (select priority from ${schema}.job where queue = line.queue and ${waiting} order by priority limit 1)
      union all
      select (select j.priority from ${schema}.job j
        where j.queue = line.queue and ${waiting} and j.priority > step.priority order by j.priority limit 1)
      from step where step.priority is not null
    )
    select ${millis("min(first.run_at)")} from step cross join lateral (
      select j.run_at from ${schema}.job j
      where j.queue = line.queue and ${waiting} and j.priority = step.priority and j.run_at > ${instant("line.since")}
      order by j.run_at limit 1
    ) first
    where step.priority is not null
  ) as run_at, ${queueColumns}
  from unnest(${opaque("$1::text[]")}, ${opaque("$2::float8[]")}) as line(queue, since)
  left join ${schema}.queue on name = line.queue`),

  /** Queues with pending jobs. Each step skips all jobs of one queue. */
  pendingQueues: `
  with recursive step(queue) as (
    (select queue from ${schema}.job where ${waiting} order by queue limit 1)
    union all
    select (select j.queue from ${schema}.job j where ${waiting} and j.queue > step.queue order by j.queue limit 1)
    from step where step.queue is not null
  )
  select queue from step where queue is not null`,

  /** The oldest heartbeat of each lease, to detect whether it changes; null if no job runs under the lease. */
  signsOfLife: `
  select l.id, ${micros(`min(${beat})`)}::text as beat
  from ${schema}.lease l
  left join lateral unnest(l.jobs) as taken(id) on true
  left join ${schema}.job j on j.id = taken.id and j.lease = l.id
  group by l.id`,

  /** Recovers the jobs of these leases whose heartbeat has not changed. Deletes leases without running jobs. */
  recoverQuiet: recover(
    schema,
    `
  quiet as (
    select * from unnest($1::uuid[], $5::bigint[]) as quiet(id, beat)
  ), held as (
    select j.id, j.lease, quiet.beat, case when j.id = any(l.locked) then l.locked_beat end as locked_beat
    from quiet join ${schema}.lease l on l.id = quiet.id
    cross join unnest(l.jobs) as taken(id)
    join ${schema}.job j on j.id = taken.id and j.lease = l.id
  ), over as (
    delete from ${schema}.lease l using quiet
    where l.id = quiet.id and not exists (select from held where held.lease = l.id)
  ), stuck as (
    -- Check the row again: the job may have ended or sent a heartbeat since this statement started.
    select j.id from held join ${schema}.job j on j.id = held.id and j.lease = held.lease
    where ${micros("greatest(j.heartbeat_at, held.locked_beat)")} <= held.beat
    limit $3 for update of j skip locked
  )`
  ),

  /** Recovers the jobs of pods without a recent heartbeat, by the clock of the server. */
  recoverAbandoned: recover(
    schema,
    `
  stuck as (
    select j.id
    from ${schema}.lease l
    cross join unnest(l.jobs) as taken(id)
    join ${schema}.job j on j.id = taken.id and j.lease = l.id
    where ${beat} < clock_timestamp() - $1::float8 * interval '1 millisecond'
      and not exists (
        select from ${schema}.pod p
        where p.id = l.pod_id and p.heartbeat_at >= clock_timestamp() - $1::float8 * interval '1 millisecond')
    limit $3 for update of j skip locked
  )`
  ),

  /** Recovers the jobs of those of the pods `$1` that have no row. */
  recoverOrphaned: recover(
    schema,
    `
  stuck as (
    select j.id from ${orphans(schema)}
    limit $3 for update of j skip locked
  )`
  ),

  /** The pods of `$1` whose jobs `recoverOrphaned` has left, because other transactions have locked them. */
  orphanedPods: `select distinct l.pod_id as pod from ${orphans(schema)}`,

  /** Creates missing lease rows for running jobs, so that they are monitored like all others. */
  adoptStrays: `
  insert into ${schema}.lease (id, pod_id, claimed_at, jobs)
  select j.lease, (array_agg(j.pod_id))[1], ${instant("$1")}, array_agg(j.id)
  from ${schema}.job j
  where j.finished_at is null and j.lease is not null and j.run_at <= ${instant("$1")}
    and not exists (select from ${schema}.lease l where l.id = j.lease and j.id = any(l.jobs))
  group by j.lease
  on conflict (id) do update set jobs = lease.jobs || excluded.jobs`,

  /** Deletes jobs of one retention class that finished in a time range, but not their logs. A job whose log is being written stays. */
  purge: hot(`
  with old as materialized (
    select id, woken, dedupe_key from ${schema}.job
    where finished_at >= ${instant("$2")} and finished_at < ${instant("$3")} and status = $1
      and (queue = any($4::text[])) = $5::boolean
    order by finished_at limit $6::int for update skip locked
  ), ${WorkflowSql.forgottenSteps(schema, "old")}
  delete from ${schema}.job j using old where j.id = old.id returning j.id`),

  /** Deletes the logs of purged jobs. A statement of its own: that of the purge does not see logs that were written meanwhile. */
  purgeLogs: `delete from ${schema}.job_log where job_id = any($1::uuid[])`,

  ...InsertSql.make(schema),
  ...FollowUpSql.make(schema),
  ...WorkflowSql.make(schema)
})

export type JobSql = ReturnType<typeof make>
