import { limits } from "../core/StoredJob.js"
import { hot } from "../database/HotStatements.js"
import { instant, micros, millis } from "../database/SqlInstant.js"
import { columns as queueColumns } from "./settings/QueueSql.js"

// The life of a job as SQL, in one place. `schema` is an identifier that needs no quoting (DatabaseConfig sees to it), so
// it may stand in the text; everything else is a parameter. Instants travel as epoch milliseconds.

/** A bounded history with one more entry. `now` is the parameter with the instant of the end. */
const remembering = (outcome: string, message: string, now: string) => `
  case when jsonb_array_length(coalesce(j.history, '[]')) >= ${limits.historyEntries} then j.history - 0
    else coalesce(j.history, '[]') end
  || (jsonb_build_object('attempt', j.attempt, 'pod', j.pod_id, 'startedAt', ${millis("j.started_at")},
    'endedAt', ${now}::float8, 'outcome', ${outcome}) || case when ${message} is null then '{}'::jsonb
    else jsonb_build_object('message', ${message}) end)`

/**
 * Neither over nor taken, in words that no claim changes but for the lease: a status here would keep the planner from the
 * claim index.
 */
const waiting = "finished_at is null and lease is null"

/** Stores the follow-up of every job that has just died, once per death, unless an operator cancelled it. */
const followUps = (schema: string, ended: string, now: string) => `
  insert into ${schema}.job (id, queue, kind, version, payload, max_attempts, meta, run_at, created_at, updated_at)
  select
    -- Sorts by time like every other id, and is the same for the same death.
    overlay(overlay(md5(d.id::text || ':' || d.death_count) placing lpad(to_hex(${now}::float8::bigint), 12, '0') from 1)
      placing '7' from 13)::uuid,
    d.on_dead->>'queue', d.on_dead->>'kind', (d.on_dead->>'version')::int, d.on_dead->'payload',
    (d.on_dead->>'maxAttempts')::smallint,
    jsonb_build_object('follows', d.id, 'deadReason', d.dead_reason, 'error', d.last_error),
    ${instant(now)}, ${instant(now)}, ${instant(now)}
  from ${ended} d
  where d.status = 'dead' and d.dead_reason <> 'cancelled' and d.on_dead is not null
  on conflict do nothing
  returning queue, kind`

/** The state of a job after an end `e`: done, pending, or the reason for which it is dead. `$10` is the instant of the end. */
const fate = `case when e.verb = 'done' then 'done'
        when j.cancel_requested_at is not null then 'cancelled'
        when e.verb = 'dead' then e.reason
        when j.unknown_since <= ${instant("($10::float8 - e.patience)")} then 'unknown_kind'
        else 'pending' end`

/** What the history calls it: an end that came to something else than was said is remembered by that. */
const remember = `case when e.verb = 'dead' and j.cancel_requested_at is not null and e.remember = e.reason then 'cancelled'
        when e.verb = 'again' and ${fate} = 'unknown_kind' then 'unknown_kind'
        else e.remember end`

/** Deletes leases that are over. One under which something runs is not: a failover may have undone the end of a job. */
const closed = (schema: string, leases: string) => `closed as (
    delete from ${schema}.lease l where l.id = any(${leases}::uuid[])
      and not exists (select from ${schema}.job j where j.id = any(l.jobs) and j.lease = l.id)
  )`

/** A crash is not a failure: the attempt is given back and the crash counted, up to the point of quarantine. */
const recover = (schema: string, stuck: string) => `
  with ${stuck}, ended as (
    update ${schema}.job j
    set
      status = case when j.cancel_requested_at is not null or j.crash_count + 1 >= $4 then 'dead' else 'pending' end,
      dead_reason = case when j.cancel_requested_at is not null then 'cancelled'
        when j.crash_count + 1 >= $4 then 'poison' end,
      death_count = j.death_count
        + (case when j.cancel_requested_at is not null or j.crash_count + 1 >= $4 then 1 else 0 end),
      finished_at = case when j.cancel_requested_at is not null or j.crash_count + 1 >= $4 then ${instant("$2")} end,
      crash_count = j.crash_count + 1,
      attempt = j.attempt - 1,
      history = ${remembering("'crashed'", "null::text", "$2")},
      last_error = 'pod ' || j.pod_id || ' ended while this job ran (crash ' || j.crash_count + 1 || ' of ' || $4::int || ')',
      run_at = least(j.run_at, ${instant("$2")}),
      lease = null, pod_id = null, heartbeat_at = null, updated_at = ${instant("$2")}
    from stuck where j.id = stuck.id
    returning j.id, j.queue, j.kind, j.status, j.dead_reason, j.death_count, j.on_dead, j.last_error
  ), followed as (${followUps(schema, "ended", "$2")})
  select queue, kind, coalesce(dead_reason, 'rescued') as fate, count(*)::int as count from ended group by 1, 2, 3
  union all select queue, kind, 'follow-up', count(*)::int from followed group by 1, 2`

const insertColumns = "id, queue, kind, version, payload, priority, run_at, max_attempts, created_at, updated_at"
const dedupeColumns = "key, dedupe_key, dedupe_scope, dedupe_until, on_dead, meta"

/** Payloads come as one JSON array: nothing is escaped on our side and it is parsed once on theirs. */
const plainSource = `rows from (
    unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), unnest($4::int[]), jsonb_array_elements($5::jsonb),
    unnest($6::smallint[]), unnest($7::float8[]), unnest($8::smallint[])
  ) as i(id, queue, kind, version, payload, priority, run_at, max_attempts)`

const fullSource = plainSource.replace(
  ") as i(id, queue, kind, version, payload, priority, run_at, max_attempts)",
  `, unnest($10::text[]), unnest($11::text[]), unnest($12::text[]), unnest($13::float8[]),
    jsonb_array_elements($14::jsonb), jsonb_array_elements($15::jsonb)
  ) as i(id, queue, kind, version, payload, priority, run_at, max_attempts,
    key, dedupe_key, dedupe_scope, dedupe_until, on_dead, meta)`
)

const plainValues = `i.id, i.queue, i.kind, i.version, i.payload, i.priority, ${instant("i.run_at")}, i.max_attempts,
    ${instant("$9")}, ${instant("$9")}`

/** A reading of a job, whole, for `StoredJobRow`. */
export const storedColumns = `j.id, j.queue, j.kind, j.version, j.payload, j.key, j.status, j.priority, j.attempt,
  j.max_attempts, j.crash_count, j.dedupe_key, j.dedupe_scope, j.pod_id, j.on_dead, j.result, j.progress, j.last_error,
  j.history, j.dead_reason, j.meta, ${millis("j.run_at")} as run_at, ${millis("j.created_at")} as created_at,
  ${millis("j.updated_at")} as updated_at, ${millis("j.started_at")} as started_at,
  ${millis("j.heartbeat_at")} as heartbeat_at, ${millis("j.finished_at")} as finished_at,
  ${millis("j.cancel_requested_at")} as cancel_requested_at`

/** Every statement about jobs, over the tables of a schema. */
export const make = (schema: string) => ({
  /** Jobs that differ in nothing but id, payload and start, whose ids are new and that hold no dedupe key. */
  insertUniform: hot(`
  insert into ${schema}.job (${insertColumns})
  select i.id, $2, $3, $4::int, i.payload, $6::smallint, ${instant("coalesce(i.run_at, $9)")}, $8::smallint,
    ${instant("$9")}, ${instant("$9")}
  -- In the list and not in FROM, where all of them would be kept before the first is stored. A start that is missing is now.
  from (
    select unnest($1::uuid[]) as id, jsonb_array_elements($5::jsonb) as payload, unnest($7::float8[]) as run_at
  ) i
  -- The hint to other pods leaves with the commit, instead of in a statement of its own that competes with the claim.
  cross join (select case when $10::text is not null then pg_notify($10, $2)::text end) as told`),

  /** Jobs whose ids are new and that hold no dedupe key: nothing can stand in their way. */
  insertPlain: hot(`
  insert into ${schema}.job (${insertColumns})
  select ${plainValues} from ${plainSource}`),

  /** Jobs that may stand already, by id or by dedupe key; returns those that were stored. */
  insertFull: hot(`
  -- A key held by somebody's open transaction must not stall the whole batch: the wait is bounded, and whoever asked
  -- tries one by one. The setting ends with this statement's transaction.
  with impatience as materialized (
    select set_config('lock_timeout', coalesce($16, current_setting('lock_timeout')), true)
  )
  insert into ${schema}.job (${insertColumns}, ${dedupeColumns})
  select ${plainValues}, i.key, i.dedupe_key, i.dedupe_scope, ${instant("i.dedupe_until")},
    nullif(i.on_dead, 'null'), nullif(i.meta, 'null')
  from impatience, ${fullSource}
  on conflict do nothing
  returning id`),

  /** Who stands in the way of these jobs, and whether a job of the same id is the same job. */
  standing: `
  select i.place::int as place, j.id, j.id = i.id as same_id,
    (j.kind, j.version, j.queue, j.payload) = (i.kind, i.version, i.queue, i.payload) as same_content,
    j.status = 'pending' and j.kind = i.kind as replaceable,
    coalesce(j.status in ('done', 'dead') and j.dedupe_until <= ${instant("$8")}, false) as lapsed
  from rows from (unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), unnest($4::int[]),
    jsonb_array_elements($5::jsonb), unnest($6::text[]), unnest($7::int[]))
    as i(id, queue, kind, version, payload, dedupe_key, place)
  join ${schema}.job j on j.id = i.id
    or (j.dedupe_key = i.dedupe_key and (j.dedupe_scope = 'retained' or j.finished_at is null))`,

  /** Lets go of keys whose window is over. */
  lapse: `
  with over as (
    select id from ${schema}.job
    where id = any($1::uuid[]) and status in ('done', 'dead') and dedupe_until <= ${instant("$2")}
    order by id for update
  )
  update ${schema}.job j set dedupe_key = null, dedupe_scope = null, dedupe_until = null from over where j.id = over.id`,

  /** Debounce: the pending holders of keys take over what newcomers of their kind brought. */
  replace: `
  with given as (
    select * from rows from (unnest($1::uuid[]), jsonb_array_elements($2::jsonb), unnest($3::int[]), unnest($4::float8[]),
      unnest($5::smallint[]), unnest($6::text[])) as g(id, payload, version, run_at, priority, kind)
  ), locked as (
    -- In one order: two requests that replace the same jobs must not lock them crosswise.
    select j.id from ${schema}.job j join given on given.id = j.id and given.kind = j.kind
    where j.status = 'pending' order by j.id for update of j
  )
  update ${schema}.job j set payload = given.payload, version = given.version, run_at = ${instant("given.run_at")},
    priority = given.priority, updated_at = ${instant("$7")}
  from given join locked on locked.id = given.id where j.id = given.id`,

  // A lease says that the job runs, so the ends do not say it again: the planner is to see one way, by the primary key.

  /** The common end: done, without a result. Leases whose last job this is go with it. */
  finish: hot(`
  with ${closed(schema, "$4")}
  update ${schema}.job j
  set status = 'done', lease = null, pod_id = null, heartbeat_at = null, last_error = null,
    finished_at = ${instant("$3")}, updated_at = ${instant("$3")}
  from unnest($1::uuid[], $2::uuid[]) as e(id, lease)
  where j.id = e.id and j.lease = e.lease`),

  /** Which of these did not end at this instant: they had moved on. */
  notFinished: `
  select e.id from unnest($1::uuid[]) as e(id)
  left join ${schema}.job j on j.id = e.id and j.status = 'done' and j.finished_at = ${instant("$2")}
  where j.id is null`,

  /** Which of these have settled at this instant and are as they were then. */
  writtenAt: `
  select id, status, dead_reason from ${schema}.job
  where id = any($1::uuid[]) and updated_at = ${instant("$2")} and lease is null`,

  /** Every other end. A job that was asked to cancel is done or cancelled, and nothing else. */
  finalize: hot(`
  with ${closed(schema, "$11")}, e as (
    select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::float8[], $5::boolean[], $6::text[], $7::text[],
      $8::text[], $9::text[], $12::float8[])
      as e(id, lease, verb, run_at, counted, error, remember, reason, result, patience)
  ), ended as (
    update ${schema}.job j
    set
      status = case ${fate} when 'done' then 'done' when 'pending' then 'pending' else 'dead' end,
      dead_reason = case when ${fate} not in ('done', 'pending') then ${fate} end,
      death_count = j.death_count + (case when ${fate} in ('done', 'pending') then 0 else 1 end),
      finished_at = case when ${fate} = 'pending' then null else ${instant("$10")} end,
      -- While no pod knows the kind, the first that took it sets the time.
      unknown_since = case when e.patience is not null then coalesce(j.unknown_since, ${instant("$10")}) end,
      run_at = case when e.verb = 'again' then ${instant("e.run_at")} else j.run_at end,
      attempt = j.attempt - (case when e.counted then 0 else 1 end),
      result = case when e.verb = 'done' then e.result::jsonb else j.result end,
      last_error = case when e.verb = 'done' then null else coalesce(e.error, j.last_error) end,
      history = case when ${remember} is null then j.history else ${remembering(remember, "e.error", "$10")} end,
      lease = null, pod_id = null, heartbeat_at = null, updated_at = ${instant("$10")}
    from e
    where j.id = e.id and j.lease = e.lease
    returning j.id, j.queue, j.status, j.dead_reason, j.death_count, j.on_dead, j.last_error
  ), followed as (${followUps(schema, "ended", "$10")})
  select id, queue, null as kind, status, dead_reason from ended
  union all select null, queue, kind, 'follow-up', null from followed`),

  /** Rows that a transactional handler has locked keep their old sign of life; they are this pod's all the same. */
  heartbeat: hot(`
  with held as (
    select j.id, j.lease, j.cancel_requested_at is not null as cancel
    from unnest($1::uuid[], $2::uuid[]) as h(id, lease)
    join ${schema}.job j on j.id = h.id and j.lease = h.lease
  ), free as (
    -- The lease is asked again of the row that is locked: the run may have ended since this statement began.
    select j.id, j.lease from ${schema}.job j join held on held.id = j.id and held.lease = j.lease
    for update of j skip locked
  ), beaten as (
    update ${schema}.job j set heartbeat_at = ${instant("$3")} from free where j.id = free.id and j.lease = free.lease
  )
  select lease, id, cancel from held`),

  progress: `
  update ${schema}.job set progress = $3::jsonb, updated_at = ${instant("$4")}
  where id = $1 and lease = $2`,

  /** When the next job of each queue is due, after an instant where one is given, and the queue's row beside it. */
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
  from unnest($1::text[], $2::float8[]) as line(queue, since)
  left join ${schema}.queue on name = line.queue`),

  /** Queues that have pending jobs. Each step jumps over all jobs of one queue. */
  pendingQueues: `
  with recursive step(queue) as (
    (select queue from ${schema}.job where ${waiting} order by queue limit 1)
    union all
    select (select j.queue from ${schema}.job j where ${waiting} and j.queue > step.queue order by j.queue limit 1)
    from step where step.queue is not null
  )
  select queue from step where queue is not null`,

  /** The oldest sign of life under each lease, to see whether it changes; none where nothing runs under it any more. */
  signsOfLife: `
  select l.id, ${micros("min(j.heartbeat_at)")}::text as beat
  from ${schema}.lease l
  left join lateral unnest(l.jobs) as taken(id) on true
  left join ${schema}.job j on j.id = taken.id and j.lease = l.id
  group by l.id`,

  /** Takes back what runs under these leases and still shows the same sign of life. Those with nothing under them go. */
  recoverQuiet: recover(
    schema,
    `
  quiet as (
    select * from unnest($1::uuid[], $5::bigint[]) as quiet(id, beat)
  ), held as (
    select j.id, j.lease, quiet.beat
    from quiet join ${schema}.lease l on l.id = quiet.id
    cross join unnest(l.jobs) as taken(id)
    join ${schema}.job j on j.id = taken.id and j.lease = l.id
  ), over as (
    delete from ${schema}.lease l using quiet
    where l.id = quiet.id and not exists (select from held where held.lease = l.id)
  ), stuck as (
    -- Asked again of the row itself: it may have ended, or shown a sign of life, while we waited to lock it.
    select j.id from held join ${schema}.job j on j.id = held.id and j.lease = held.lease
    where ${micros("j.heartbeat_at")} <= held.beat
    limit $3 for update of j skip locked
  )`
  ),

  /** Writes down the leases of what runs under one that is not written down, so that it is watched like all others. */
  adoptStrays: `
  insert into ${schema}.lease (id, pod_id, claimed_at, jobs)
  select j.lease, (array_agg(j.pod_id))[1], ${instant("$1")}, array_agg(j.id)
  from ${schema}.job j
  where j.finished_at is null and j.lease is not null and j.run_at <= ${instant("$1")}
    and not exists (select from ${schema}.lease l where l.id = j.lease and j.id = any(l.jobs))
  group by j.lease
  on conflict (id) do update set jobs = lease.jobs || excluded.jobs`,

  /** Of one class of retention: what finished in a stretch of time. */
  purge: hot(`
  with old as (
    select id from ${schema}.job
    where finished_at >= ${instant("$2")} and finished_at < ${instant("$3")} and status = $1
      and (queue = any($4::text[])) = $5::boolean
    order by finished_at limit $6::int for update skip locked
  )
  delete from ${schema}.job j using old where j.id = old.id`),

  purgeDone: `
  with old as (
    select id from ${schema}.job where status = 'done' and finished_at < ${instant("$1")}
    order by finished_at limit $2 for update skip locked
  )
  delete from ${schema}.job j using old where j.id = old.id`
})

export type JobSql = ReturnType<typeof make>
