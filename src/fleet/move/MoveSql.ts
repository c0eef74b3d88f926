import { instant, micros, millis } from "../../database/SqlInstant.js"
import { kind as Webhook } from "../../queue/endpoints/Send.js"
import { workChannel } from "../../queue/Wakeups.js"
import * as WorkflowSql from "../../queue/workflow/WorkflowSql.js"

// Statements that move jobs from one cell to another. While a job moves, its queue is `mail>main>mail-2`: the queue, the
// cell that it leaves and the one that it goes to. No process can serve a queue of that name, so no claim takes the job in
// either cell, and neither a signal, an operator nor the reaper changes that.

/**
 * Whether a job belongs to rows of the cell: it is part of a batch, an execution started it, it has started others, or it sends
 * a webhook to an endpoint.
 */
const linked = (
  schema: string
) => `(j.batch_id is not null or j.is_child is true or j.kind = '${Webhook.name}' or (j.woken is not null
    and exists (select from ${schema}.workflow_child l where l.parent = j.dedupe_key)))`

/** What decides the cell of a job. */
const placed = (schema: string) => `j.id, j.key, j.dedupe_key, ${linked(schema)} as linked`

/** A batch that moves is closed at this instant, so that the leader of neither cell closes it for good. */
const movingAt = "'9999-12-31 00:00:00+00'::timestamptz"

/** Waiting jobs of a queue, and jobs that were cancelled while they moved. */
const ofQueue = "j.queue = $1 and (j.finished_at is null and j.lease is null or j.dead_reason = 'cancelled')"

// Jobs that are stored while others of their key are held do not see those, and neither does the new cell: `behind_key` reads one
// queue of one cell. Their clocks may be behind, so held jobs start earlier, by the difference that `behind_key` tolerates. All due
// jobs of a key do, also scheduled ones, so that they keep their order.
const inLine = (now: string) =>
  `j.key is not null and j.finished_at is null and j.run_at <= greatest(j.created_at, ${instant(now)})`
const earlier = "j.run_at - interval '5 s'"

/** Tables that `WorkflowSql.forgotten` deletes from by job. */
const ofJobs = ["job_log", ...WorkflowSql.stepTables]
/** The same by execution. */
const ofExecutions = { workflow_deferred: "execution", workflow_child: "parent" }

/** Rows as the text of a JSON array, which the other cell reads without a change by this process. */
const dumped = (schema: string, table: string, condition: string) =>
  `select '${table}' as name, json_agg(r)::text as rows from ${schema}.${table} r where ${condition}`

/** The other columns of a stored wait `d`, which are replaced until it has ended. */
const replaced = ["waiting", "due_at", "remaining", "exit", "completed_at", "signal", "value_id"]
  .map((column) => `${column} = case when d.completed_at is null then excluded.${column} else d.${column} end`)
  .join(", ")

/** Waits of copies of the jobs `$1` that an interrupted move has left in queue `$2`. */
const copiedWaits = (schema: string) => `
  select (select json_agg(d order by execution, kind, name)::text from ${schema}.workflow_deferred d where d.execution = any(array(
    select dedupe_key from ${schema}.job where id = any($1::uuid[]) and queue = $2 and woken is not null)))`

/** Deletes the jobs `old` with all that belongs to them. */
const gone = (schema: string) => `${WorkflowSql.forgotten(schema, "old")}, gone as (
  delete from ${schema}.job j using old where j.id = old.id returning 1
)`

/** Signals of executions that this cell does not have. */
const stray = "d.kind in ('signal', 'value') and d.completed_at is not null"

/** The id with which a signal is sent to another cell. */
const sentIdOf = (row: string) =>
  `coalesce(${row}.value_id, 'moved:' || ${row}.name || ':' || ${micros(`${row}.created_at`)})`
const sentId = sentIdOf("d")

/** The parameters of complete_deferred for signals `d`. Their ids make it safe to send them twice. */
const sendable = `select coalesce(json_agg(execution order by place), '[]')::text as executions,
    coalesce(json_agg(coalesce(signal, name) order by place), '[]')::text as names,
    coalesce(json_agg(${sentId} order by place), '[]')::text as ids,
    coalesce(jsonb_agg(coalesce(exit, 'null') order by place), '[]')::text as exits
  from (select *, row_number() over (order by created_at, length(name), name) as place from taken) d`

export const make = (schema: string) => ({
  /** A commit that is lost in a crash of the server would lose the job, or return it in a cell that it has left. */
  durably: "select set_config('synchronous_commit', 'on', true)",

  /** A page of the waiting jobs of queue `$1`, after the priority, start time and id `$2` to `$4`. */
  waiting: `
  select ${placed(schema)}, j.priority, j.run_at::text as run_at from ${schema}.job j
  where j.queue = $1 and j.finished_at is null and j.lease is null
    and ($2::smallint is null or (j.priority, j.run_at, j.id) > ($2::smallint, $3::timestamptz, $4::uuid))
  order by j.priority, j.run_at, j.id limit $5`,

  running: `
  select ${placed(schema)}, j.lease, j.kind, ${millis("j.started_at")} as started_at from ${schema}.job j
  where j.queue = $1 and j.finished_at is null and j.lease is not null order by j.id`,

  /** Finished jobs of queue `$1` that still hold a dedupe key: without them, the key would run again in the other cell. */
  finished: `
  select ${placed(schema)} from ${schema}.job j
  where j.queue = $1 and j.dedupe_key is not null and j.dedupe_scope = 'retained' and j.finished_at is not null
    and (j.dedupe_until is null or j.dedupe_until > ${instant("$2")})`,

  /** Finished jobs of any queue that belong to the jobs of the queues `$1`: their children, and members of their batches. */
  companions: `
  with recursive below(id) as (
    select l.child from ${schema}.job p join ${schema}.workflow_child l on l.parent = p.dedupe_key
    where p.queue = any($1::text[]) and p.finished_at is null and p.woken is not null
    union
    select l.child from below join ${schema}.job p on p.id = below.id and p.woken is not null
    join ${schema}.workflow_child l on l.parent = p.dedupe_key
  )
  select j.id from below join ${schema}.job j on j.id = below.id where j.finished_at is not null
  union
  select j.id from ${schema}.job j where j.finished_at is not null and j.batch_id in (
    select m.batch_id from ${schema}.job m join ${schema}.batch b on b.id = m.batch_id
    where m.queue = any($1::text[]) and m.finished_at is null and (b.closed_at is null or b.closed_at = ${movingAt}))`,

  /** Unfinished jobs of other queues than `$1` that belong to unfinished jobs of these queues, and webhooks. */
  ties: `
  with moving as materialized (
    select * from ${schema}.job j where j.queue = any($1::text[]) and j.finished_at is null
      and (j.woken is not null or j.is_child is true or j.batch_id is not null)
  )
  select 'child' as tie, m.queue, j.queue as other, count(*)::int as jobs
  from moving m join ${schema}.workflow_child l on l.parent = m.dedupe_key and m.woken is not null
  join ${schema}.job j on j.id = l.child and j.finished_at is null and j.queue <> all($1::text[]) group by 2, 3
  union all
  select 'parent', m.queue, j.queue, count(*)::int
  from moving m join ${schema}.workflow_child l on l.child = m.id and l.ended_at is null
  join ${schema}.job j on j.dedupe_key = l.parent and j.woken is not null and j.finished_at is null
    and j.queue <> all($1::text[]) group by 2, 3
  union all
  select 'batch', m.queue, j.queue, count(distinct j.id)::int
  from moving m join ${schema}.job j on j.batch_id = m.batch_id and j.finished_at is null and j.queue <> all($1::text[])
  group by 2, 3
  union all
  select 'endpoint', j.queue, j.queue, count(*)::int from ${schema}.job j
  where j.queue = any($1::text[]) and j.finished_at is null and j.kind = '${Webhook.name}' group by 2, 3`,

  /** Takes jobs `$1` of queue `$3` out of it, into the queues `$2`. */
  hold: `
  update ${schema}.job j set queue = given.queue, run_at = case when ${inLine("$4")} then ${earlier} else j.run_at end
  from unnest($1::uuid[], $2::text[]) as given(id, queue) where j.id = given.id and j.queue = $3 and j.lease is null`,
  /** Before more jobs are held: those of the queues `$1` come before them. */
  precede: `update ${schema}.job j set run_at = ${earlier} where j.queue = any($1::text[]) and ${inLine("$2")}`,
  /** Returns jobs `$1` of the held queue `$2` to queue `$3`. */
  unhold: `
  update ${schema}.job j set queue = $3 where j.id = any($1::uuid[]) and j.queue = $2 and j.lease is null`,

  /** The first jobs of queue `$1` that fit into `$3` bytes, at least one. Journals count. */
  next: `
  select id from (
    select j.id, row_number() over line as number, sum(pg_column_size(j.payload) + coalesce(pg_column_size(j.result), 0)
      + case when j.woken is null then 0 else coalesce((
        select sum(pg_column_size(s.exit)) from ${schema}.workflow_step s where s.job_id = j.id), 0) + coalesce((
        select sum(pg_column_size(c.chunks)) from ${schema}.workflow_chunk c where c.job_id = j.id), 0) end) over line as bytes
    from (select * from ${schema}.job j where ${ofQueue} order by j.priority, j.run_at, j.id limit $2) j
    window line as (order by j.priority, j.run_at, j.id)
  ) j where number = 1 or bytes <= $3`,

  count: `select count(*)::int as jobs from ${schema}.job j where ${ofQueue}`,

  /** Queues of cancelled jobs: no other index has the queue of a job that was cancelled while it moved. */
  cancelledQueues: `select distinct queue from ${schema}.job where dead_reason = 'cancelled' and position('>' in queue) > 0`,

  // Locks in the order of WorkflowSql.
  lockLinks: `
  select from ${schema}.workflow_child where parent = any(array(
    select dedupe_key from ${schema}.job where id = any($1::uuid[]) and woken is not null))
  order by parent, name, position for update`,
  lockWaits: `
  select from ${schema}.workflow_deferred where execution = any(array(
    select dedupe_key from ${schema}.job where id = any($1::uuid[]) and woken is not null))
  order by execution, kind, name for update`,
  lock: `
  select j.id, j.dedupe_key, j.updated_at::text as updated_at, j.woken is not null as execution, j.finished_at is null as unfinished,
    j.woken is not null and (exists (select from ${schema}.workflow_permit p where p.job_id = j.id)
      or exists (select from ${schema}.event_wait w where w.execution = j.dedupe_key and w.taken is null)) as asks
  from ${schema}.job j where j.id = any($1::uuid[]) and j.lease is null
    -- A finished job may have been requeued since it was chosen.
    and (j.finished_at is not null or j.queue = $2)
  order by j.id desc for update`,

  /** All rows of the jobs `$1` and the executions `$2`, one row per table. */
  dump: [
    dumped(schema, "job", "r.id = any($1::uuid[])"),
    ...ofJobs.map((table) => dumped(schema, table, "r.job_id = any($1::uuid[])")),
    ...Object.entries(ofExecutions).map(([table, column]) => dumped(schema, table, `r.${column} = any($2::text[])`))
  ].join(" union all "),

  /** Which of the jobs `$1` are here and do not move here, and which of the dedupe keys `$2` other jobs hold here. */
  conflicts: `
  select j.id, null as key from ${schema}.job j where j.id = any($1::uuid[]) and j.queue <> $3
  union all
  select null, j.dedupe_key from ${schema}.job j where j.dedupe_key = any($2::text[]) and j.id <> all($1::uuid[])
    and (j.dedupe_scope = 'retained' or j.finished_at is null)`,

  /**
   * Deletes copies of the jobs `$1` that an interrupted move has left in queue `$2`. An act may have changed a copy since its job
   * was changed in the old cell, at `$3`: it stays. A signal may have made an execution due.
   */
  dropCopies: `
  delete from ${schema}.job j using unnest($1::uuid[], $3::text[]) as given(id, at)
  where j.id = given.id and j.queue = $2 and j.updated_at <= given.at::timestamptz
  returning j.id, case when j.woken is not null then j.run_at::text end as run_at`,

  /** Stores dumped jobs in queue `$3`, with the changed columns in `$2`. Copies that are still there stay as they are. */
  storeJobs: `
  with stored as (
    insert into ${schema}.job as j
    select n.* from json_populate_recordset(null::${schema}.job, $1::json) r
    left join jsonb_to_recordset($2::jsonb) as c(id uuid, due timestamptz, changed jsonb) on c.id = r.id
    cross join lateral jsonb_populate_record(r, coalesce(c.changed, '{}')
      || jsonb_build_object('run_at', least(r.run_at, c.due))) n
    on conflict (id) do update
      set run_at = case when j.woken is null then j.run_at else least(j.run_at, excluded.run_at) end where j.queue = $3
    returning 1
  )
  select count(*)::int as jobs from stored`,

  store: Object.fromEntries(
    [...ofJobs, "workflow_child"].map((table) => [
      table,
      `insert into ${schema}.${table} select r.* from json_populate_recordset(null::${schema}.${table}, $1::json) r
      on conflict do nothing`
    ])
  ) as Readonly<Record<string, string>>,

  /** Before dumped waits are stored: those of them that this cell has sent to the other one replace its own, under their numbers. */
  reopenSent: `
  update ${schema}.workflow_deferred d set completed_at = null
  from json_populate_recordset(null::${schema}.workflow_deferred, $1::json) r
  where ${stray} and r.execution = d.execution and coalesce(r.signal, r.name) = coalesce(d.signal, d.name) and r.value_id = ${sentId}
    and exists (select from json_populate_recordset(null::${schema}.workflow_deferred, $1::json) own
      where (own.execution, own.kind, own.name) = (d.execution, d.kind, d.name))`,
  /** Stores dumped waits. A signal that this cell has received meanwhile is kept, and further ones are numbered after all of them. */
  storeWaits: `
  insert into ${schema}.workflow_deferred as d
  select r.* from json_populate_recordset(null::${schema}.workflow_deferred, $1::json) r
  on conflict (execution, kind, name) do update set arrived = greatest(d.arrived, excluded.arrived),
    arrived_bytes = greatest(d.arrived_bytes, excluded.arrived_bytes), ${replaced}`,

  copiedWaits: `${copiedWaits(schema)} as rows`,
  /** Signals among dumped waits that this cell does not have: both cells have received some since a copy was made. */
  unknownSignals: `
  with taken as (
    select d.* from json_populate_recordset(null::${schema}.workflow_deferred, $1::json) d where ${stray} and not exists (
      select from ${schema}.workflow_deferred o
      where o.execution = d.execution and (o.kind = d.kind and o.name = d.name and o.completed_at = d.completed_at
        or o.kind in ('signal', 'value') and coalesce(o.signal, o.name) = coalesce(d.signal, d.name) and d.value_id = ${sentIdOf("o")}))
  )
  ${sendable}`,

  /** Takes signals out that came here before their executions `$1`. */
  takeEarly: `
  with taken as (delete from ${schema}.workflow_deferred d where d.execution = any($1::text[]) and d.early and ${stray} returning *)
  ${sendable}`,

  /** Executions that have signals here and are not here. */
  strayExecutions: `
  select distinct d.execution from ${schema}.workflow_deferred d where ${stray} and not exists (
    select from ${schema}.job j where j.dedupe_key = d.execution and j.dedupe_scope = 'retained' and j.woken is not null)`,
  executionsHere: `
  select j.dedupe_key as execution from ${schema}.job j
  where j.dedupe_key = any($1::text[]) and j.dedupe_scope = 'retained' and j.woken is not null`,
  takeStray: `
  with taken as (delete from ${schema}.workflow_deferred d where d.execution = any($1::text[]) and ${stray} returning *)
  ${sendable}`,
  send: `
  select count(*)::int as sent from ${schema}.complete_deferred(array(select json_array_elements_text($1::json)),
    array(select json_array_elements_text($2::json)), array(select json_array_elements_text($3::json)), $4::jsonb, $5::float8)
  where outcome in ('completed', 'appended')`,

  remove: `with old as materialized (
    select id, woken, dedupe_key from ${schema}.job where id = any($1::uuid[])
  ), ${gone(schema)} select count(*)::int as jobs from gone`,
  /**
   * Deletes copies of the jobs `$1` in queue `$2` if their waits are `$3`, and returns whether they are. One statement: a signal
   * that it does not see is not deleted.
   */
  removeCopies: `with waits as materialized (${copiedWaits(schema)} is not distinct from $3 as same), old as materialized (
    select id, woken, dedupe_key from ${schema}.job, waits where id = any($1::uuid[]) and queue = $2 and same
  ), ${gone(schema)} select same from waits`,

  /** Which of the jobs `$1` are here. */
  present: `select id from ${schema}.job where id = any($1::uuid[])`,

  /** Puts jobs `$1` that have arrived into queue `$3`. In an ordered queue, jobs that have begun come first. */
  release: `
  with released as (
    update ${schema}.job j set queue = $3 where j.id = any($1::uuid[]) and j.queue = $2
    returning j.key, j.id, j.started_at, j.finished_at
  ), turns as (
    insert into ${schema}.key_turn as t (queue, key, turn, turned_at, taken)
    select $3, key, 1, ${instant("$4")}, array_agg(id) from released
    where key is not null and started_at is not null and finished_at is null group by key order by key
    on conflict (queue, key) do update set turn = t.turn + 1, turned_at = excluded.turned_at, taken = t.taken || excluded.taken
  )
  select count(*)::int as jobs, pg_notify('${workChannel(schema)}', $3) from released`,

  /** Closes the batches of the queues `$1` for their move `$2`. */
  holdBatches: `
  update ${schema}.batch set closed_at = ${movingAt},
    counts = jsonb_build_object('done', 0, 'dead', 0, 'cancelled', 0, 'deleted', 0, 'moving', $2::text)
  where closed_at is null and id in (
    select batch_id from ${schema}.job where queue = any($1::text[]) and finished_at is null and batch_id is not null)`,
  /** Batches of move `$1` whose jobs have left. Those of other queues that move the same way may still have some here. */
  dumpBatches: `
  select json_agg(b)::text as rows, array_agg(b.id) as ids from ${schema}.batch b
  where b.closed_at = ${movingAt} and b.counts->>'moving' = $1 and not exists (
    select from ${schema}.job j where j.batch_id = b.id and (j.finished_at is null or position('>' in j.queue) > 0))`,
  storeBatches: `
  insert into ${schema}.batch select r.* from json_populate_recordset(null::${schema}.batch, $1::json) r on conflict do nothing`,
  dropBatches: `delete from ${schema}.batch where closed_at = ${movingAt} and id = any($1::uuid[])`,
  /** Opens batches of move `$1` that have jobs here, none of which is held unless `$2`. */
  releaseBatches: `
  with released as (
    update ${schema}.batch b set closed_at = null, counts = null
    where b.closed_at = ${movingAt} and b.counts->>'moving' = $1 and ($2::boolean or (
      exists (select from ${schema}.job j where j.batch_id = b.id)
      and not exists (select from ${schema}.job j where j.batch_id = b.id and position('>' in j.queue) > 0)))
    returning id
  )
  select count(*)::int as batches, count(pg_notify('${schema}_hint', 'batch ' || id)) from released`,

  /** Schedules that enqueue into queue `$1`, by their own queue or by that of their kind. */
  schedules: `
  select s.name, s.origin from ${schema}.schedule s left join ${schema}.kind k on k.name = s.kind
  where s.removed_at is null and coalesce(s.queue, case when coalesce(k.routed, true) then ${schema}.route_of(s.kind) end,
    k.queue, 'default') = $1 order by 1`,
  /** Subscribers whose jobs are stored in queue `$1`. */
  subscribers: `
  select s.event, s.kind from ${schema}.subscription s, ${schema}.kind_defaults(s.kind) k where k.queue = $1 order by 1, 2`
})

export type MoveSql = ReturnType<typeof make>
