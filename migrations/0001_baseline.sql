-- Oldest code: 0.1.0
--
-- The schema of Nightshift. `nightshift migrate` (and every start of `serve`) applies this file in one transaction with
-- search_path set to the schema of DATABASE_SCHEMA and then pg_temp, so no name here carries a schema. Every function
-- keeps that path: a temporary table or type of its caller must not hide ours.
--
--   jobs        job, lease, follow_up_due, batch
--   workflows   workflow_step, workflow_deferred, workflow_child, workflow_permit, workflow_stream, workflow_chunk,
--               workflow_lifetime, workflow_tag, and the SQL functions complete_deferred(), signal(), turn_permit() and
--               set_tags()
--   queues      queue, key_turn
--   kinds       kind, route, and the SQL functions that store jobs: enqueue(), enqueue_jobs() and store_job()
--   schedules   schedule
--   operators   operation, job_undo, saved_view, audit
--   cluster     pod, leader, share
--   rate limits rate_limit
--   history     job_bucket, queue_wait, pod_sample, database_sample
--   uploads     upload_content, upload_chunk, upload, upload_workspace
--   gateway     bot_session, bot_guess, bot_dead_letter
--   access      workspace_token, session, idempotency
--
-- The table `migration`, one row per applied file, is created by the migration runner.
--
-- Rules that hold for every table:
--   * Instants are parameters from the program's clock. No default and no trigger calls now(). The only exceptions are
--     enqueue() and signal(), which other programs call.
--   * Ids are UUID version 7, made by the program: they sort by creation time.
--   * Columns of tables with many rows are ordered by alignment: uuid and timestamptz, then integers, then the rest.
--   * Constraints are named after their table and what they check: `_known` a list of values, `_consistent` columns that
--     depend on each other, `_length`, `_format`, `_range`, `_unique`, `_fkey`. A new value of a list is a new file that
--     replaces the check: its header names the oldest code that can read the value.

---------------------------------------------------------------------------------------------------------------- jobs

-- A job, from enqueue until retention deletes it. Its states:
--
--   pending --claim--> running --finalize--> done | dead | pending again (retry, snooze, rescue, suspension)
--
-- Claiming a job changes its row but no index entry. PostgreSQL then writes the new row version on the same page and
-- touches no index (a HOT update), which makes a claim a third cheaper. It does so only if no index mentions a changed
-- column, neither as a key nor in its condition. For this reason the indexes below say `finished_at is null` where they
-- mean "pending or running", and running jobs are found through `lease` instead of an index.
create table job (
  id uuid not null,
  -- The claim under which the job runs. Every write about a run carries it, and changes nothing if it has changed.
  lease uuid,
  pod_id uuid,
  run_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  started_at timestamptz,
  heartbeat_at timestamptz,
  finished_at timestamptz,
  cancel_requested_at timestamptz,
  -- A finished job releases its dedupe key at this instant.
  dedupe_until timestamptz,
  -- When a pod without this kind's handler first claimed the job. The job dies as `unknown_kind` a day later. Cleared
  -- when a pod that serves the kind runs it, and by a requeue.
  unknown_since timestamptz,
  -- The batch to which the job belongs.
  batch_id uuid,
  -- The version of the kind's payload schema.
  version int not null default 1,
  -- Lower runs first.
  priority smallint not null default 0,
  -- The retry budget: how many attempts were used. Rescues, snoozes and throttles return the attempt.
  attempt smallint not null default 0,
  max_attempts smallint not null,
  -- How many pods ended while they ran this job. A job that reaches the limit dies as `poison`.
  crash_count smallint not null default 0,
  -- How often the job died; part of the id of its follow-up, so that each death has one.
  death_count smallint not null default 0,
  -- Null unless the job is a workflow execution, whose id is its dedupe key. Counts its wake-ups and ended runs: a
  -- suspension states the value it saw and is due at once if it has changed, so no wake-up is lost. 0 means that no run
  -- has ended yet.
  woken int,
  -- True if an execution has started the job or waited for it: its end is counted in workflow_child. Null otherwise.
  is_child boolean,
  status text not null default 'pending',
  queue text not null,
  kind text not null,
  -- Jobs of one queue with the same key share its limits and its order (table key_turn).
  key text,
  dedupe_key text,
  -- `active` holds the dedupe key until the job ends, `retained` until the row is deleted or dedupe_until has passed.
  dedupe_scope text,
  dead_reason text,
  -- Why a workflow execution has died. It is dead when it has undone its steps, which its next run does.
  dying text,
  -- Whether a run of a workflow execution was cut off, and no later run has caught up: a step may have begun that is not
  -- recorded.
  cut boolean,
  -- The release of the code that last suspended a workflow execution. Null when that code no longer follows its journal.
  release text,
  payload jsonb not null,
  meta jsonb,
  -- The follow-up to store when the job dies: {queue, kind, version, payload, attempts, priority}, or the string "computed" if the
  -- code of the kind computes it (table follow_up_due).
  on_dead jsonb,
  progress jsonb,
  result jsonb,
  last_error text,
  -- Attempts that did not simply succeed, oldest first, a bounded number.
  history jsonb,

  constraint job_pkey primary key (id),
  -- One CASE instead of several checks: it is evaluated whenever a job is stored, claimed and finalized. The most
  -- frequent states come first.
  constraint job_state_consistent check (
    case status
      when 'pending' then lease is null and pod_id is null and heartbeat_at is null
        and finished_at is null and dead_reason is null
      -- A done job keeps the pod that ran it. The other ended jobs have it in their history.
      when 'done' then lease is null and heartbeat_at is null
        and finished_at is not null and dead_reason is null
      when 'running' then lease is not null and pod_id is not null and heartbeat_at is not null
        and started_at is not null and finished_at is null and dead_reason is null
      when 'dead' then lease is null and pod_id is null and heartbeat_at is null
        and finished_at is not null and dead_reason is not null
        and dead_reason in ('exhausted', 'rejected', 'cancelled', 'undecodable', 'unknown_kind', 'poison', 'not_undone')
      else false
    end
  ),
  constraint job_attempt_range check (attempt between 0 and max_attempts),
  constraint job_dedupe_consistent check (
    dedupe_key is null and dedupe_scope is null
    or dedupe_key is not null and dedupe_scope is not null and dedupe_scope in ('active', 'retained')
  )
) with (
  -- Every job is claimed once: half of each page stays free for the second version of its rows. docs/operate/postgresql.md
  -- compares other values, and lists what each index costs.
  fillfactor = 50,
  -- The table turns over: vacuum by the number of dead rows, not by the size of the table.
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

-- Due jobs in claim order. Used by the claim, which reads one range per priority; by the poll for the next due job; by
-- the depth cap and the counts of a queue. Deduplication of index entries is off: every entry ends in the id, so no two
-- are equal, and looking for equal ones would cost every insert.
create index job_claim on job (queue, priority, run_at, id) with (deduplicate_items = off) where finished_at is null;

-- Unfinished jobs of a key, in claim order. Used by claims of queues that limit keys or cool them down.
create index job_key on job (queue, key, priority, run_at, id) with (deduplicate_items = off)
  where key is not null and finished_at is null;

-- The jobs of a key start in the order in which they were stored, although the clocks of the processes that store them
-- differ a little: a job that is due goes behind those of its key that come later and were due when they were stored. It
-- ignores those of a clock that is seconds ahead. `created_at` follows, because `run_at > created_at` means scheduled.
-- Every insert of a job with a key asks this function for both times. PostgreSQL makes it part of the inserting statement,
-- which costs less than half of a trigger; a function with settings, such as a search path, would be called instead.
create function behind_key(queue text, key text, priority smallint, id uuid, run_at timestamptz, created_at timestamptz)
returns table (run_at timestamptz, created_at timestamptz)
language sql stable
begin atomic
  select coalesce(last.next, $5), greatest($6, last.next)
  from (select) as always
  left join lateral (
    select j.run_at + interval '1 microsecond' as next from job j
    where j.queue = $1 and j.key = $2 and j.priority = $3 and j.finished_at is null and $5 <= $6
      and (j.run_at, j.id) > ($5, $4) and j.run_at < $5 + interval '5 s' and j.run_at <= j.created_at
    order by j.run_at desc limit 1
  ) last on true;
end;

-- The job that holds a dedupe key. Enforced by every insert; used by enqueue to find the holder.
create unique index job_dedupe on job (dedupe_key)
  where dedupe_key is not null and (dedupe_scope = 'retained' or finished_at is null);

-- Jobs of a batch, unfinished ones together. Used to find out whether a batch has ended, and by its counts and its list.
create index job_batch on job (batch_id, finished_at) where batch_id is not null;

-- Finished jobs by age. Used by the purge, from the oldest, and by the list of recent changes, from the newest.
create index job_finished on job (finished_at) where finished_at is not null;

-- The remaining indexes serve lists and counts in Mission Control. Lists show the newest jobs first, and a busy queue has
-- any number of newer jobs in other states: without these indexes a list would read all of them. A job that is due when
-- it is stored and succeeds at its first attempt enters none of them, and a claim writes none of their columns.

-- Scheduled jobs and jobs that wait for a retry, newest first. Used by the lists of both.
create index job_waiting on job (id) where finished_at is null and (run_at > created_at or last_error is not null);

-- Dead jobs of one queue, newest first. Used by the list, the groups by error and the counts of a queue.
create index job_dead on job (queue, id) where dead_reason <> 'cancelled';

-- Dead jobs by time of death. Used by the list of dead jobs, which shows the latest deaths first.
create index job_dead_finished on job (finished_at, id) where dead_reason <> 'cancelled';

-- Dead jobs of all queues, newest first. Used by the list and the groups by error.
create index job_dead_newest on job (id) where dead_reason <> 'cancelled';

-- The shape of an error: its first line without ids and numbers, so that jobs that died of the same cause share it. A
-- message of JSON on several lines begins with a bracket alone; then it is the whole message on one line. The same rules as in
-- the program (ErrorShape). Changing them requires a reindex.
create function error_shape(error text) returns text
language sql immutable parallel safe
set search_path from current
as $$
  select regexp_replace(regexp_replace(regexp_replace(
    left(
      case when split_part(coalesce(error, ''), E'\n', 1) ~ '^[][{}(), ]*$'
      then coalesce(
        btrim(regexp_replace(regexp_replace(error, '\n(    at |Caused by: ).*', ''), '[ \n\r\t]+', ' ', 'g')), '')
      else split_part(coalesce(error, ''), E'\n', 1) end,
      200),
    '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}', '#', 'g'),
    '[0-9a-fA-F]{16,}', '#', 'g'),
    '[0-9]+', '#', 'g')
$$;

-- Dead jobs by cause, in id order. Used by bulk operations on a cause, and their counts. A digest, because a shape may
-- be as long as 200 characters.
create index job_dead_shape on job ((md5(error_shape(last_error))::uuid), kind, dead_reason, id)
  where dead_reason <> 'cancelled';

-- Cancelled jobs of one queue, and of all queues, newest first. Used by the lists and the counts, which show them apart
-- from dead jobs.
create index job_cancelled on job (queue, id) where dead_reason = 'cancelled';
create index job_cancelled_newest on job (id) where dead_reason = 'cancelled';

-- Workflow executions, newest first. Used by their list.
create index job_execution on job (id) where woken is not null;

-- A claim and the jobs it took. The claim inserts the row, the finalize of its last job deletes it. The reaper finds
-- the jobs of lost pods here, and the list of running jobs its ids.
create table lease (
  id uuid not null,
  pod_id uuid not null,
  claimed_at timestamptz not null,
  jobs uuid[] not null,
  -- Jobs that the pod held at locked_beat and whose row another transaction had locked, so that their own heartbeat could
  -- not be renewed.
  locked uuid[],
  locked_beat timestamptz,

  constraint lease_pkey primary key (id)
) with (
  autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- What the handler of a job logged in an attempt: its last lines, one JSON object per line. Written by the holder of the
-- job's lease while the attempt runs, about once a second, and with its end. A job that logs nothing has no row. Rows are
-- deleted with the job.
create table job_log (
  job_id uuid not null,
  -- The run that wrote `lines`. Several runs may have the same number of attempt: a crash, a snooze and a suspension return it.
  lease uuid not null,
  -- Lines that this run has logged, including those that are no longer kept. A write with a smaller number came too late.
  count int not null,
  -- The same for all runs of the attempt.
  total int not null,
  attempt smallint not null,
  -- The last lines of this run.
  lines text not null,
  -- The last lines of earlier runs of the attempt, as far as they fit beside `lines`.
  earlier text,

  constraint job_log_pkey primary key (job_id, attempt)
);

-- A job that died and whose follow-up the code of its kind must still compute: the pod that recorded the death did not
-- have the code, or crashed. The next pod with the code makes the follow-up and deletes the row. The row has all that
-- this takes, because the job may be requeued or deleted first.
create table follow_up_due (
  job_id uuid not null,
  -- The job's death_count.
  death smallint not null,
  version int not null,
  died_at timestamptz not null,
  -- Later than died_at after the code has failed to make the follow-up.
  due_at timestamptz not null,
  kind text not null,
  dead_reason text not null,
  error text,
  payload jsonb not null,

  constraint follow_up_due_pkey primary key (job_id, death)
);

-- Used by the reaper, which makes these follow-ups.
create index follow_up_due_at on follow_up_due (kind, due_at);

-- Random ids do not compress; without this every large claim would try. Written as ALTER because CREATE TABLE accepts a
-- storage mode only since PostgreSQL 16, and guarded because Citus refuses this ALTER in a distributed schema: there
-- the column keeps the default mode, which costs time and nothing else.
do $$
begin
  alter table lease alter column jobs set storage external;
exception when feature_not_supported then null;
end
$$;

-- Jobs that were stored together and share a follow-up, which is enqueued once when all of them have ended.
create table batch (
  id uuid not null,
  created_at timestamptz not null,
  -- When the last job ended. A closed batch takes no more jobs and stays closed, even if one of them is requeued.
  closed_at timestamptz,
  follow_up_id uuid,
  -- Jobs stored in this batch so far. Adding jobs updates the row, so that it cannot be closed at the same time.
  total int not null,
  name text,
  -- {queue, kind, version, payload, attempts, priority, routed}
  follow_up jsonb,
  -- How the jobs had ended when the batch was closed: {done, dead, cancelled, deleted}.
  counts jsonb,

  constraint batch_pkey primary key (id),
  constraint batch_closed_consistent check ((closed_at is null) = (counts is null))
);

-- Open batches. Used by the leader, which closes them.
create index batch_open on batch (id) where closed_at is null;

-- Closed batches by age. Used by cleanup.
create index batch_closed on batch (closed_at) where closed_at is not null;

----------------------------------------------------------------------------------------------------------- workflows

-- A workflow execution is a job whose `woken` is not null. It runs its function from the start whenever it is claimed;
-- results recorded here are not computed again. Steps belong to the job. Waits and children name the execution by its
-- dedupe key, which the caller chose: a signal may arrive before the job exists. Rows of these tables are deleted with the
-- job. There are no foreign keys: a key to job would make every deletion of a plain job look here.

-- The journal of an execution: a result that was given to its code, in the order of `sequence`. Inserted only by the
-- holder of the job's lease (the insert locks the job FOR KEY SHARE and compares the lease). Only `reopened_at` is
-- ever updated.
create table workflow_step (
  job_id uuid not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  -- A failed attempt that is retried: when.
  retry_at timestamptz,
  -- A failed or undone step of a retried execution: since when it runs again. The row keeps its place in the journal, and
  -- the next attempt is recorded with the same sequence.
  reopened_at timestamptz,
  sequence int not null,
  attempt smallint not null,
  -- The call that recorded it: run, transaction, stream, sleep, signal, message, ask, children, patch, value, set or undo.
  kind text not null,
  outcome text not null,
  name text not null,
  -- The result or the error, in the form of the library that wrote it.
  exit jsonb not null,

  constraint workflow_step_pkey primary key (job_id, name, attempt),
  constraint workflow_step_outcome_known check (outcome in ('done', 'failed', 'retrying')),
  constraint workflow_step_retry_consistent check ((outcome = 'retrying') = (retry_at is not null))
);

-- Executions with a long journal, one entry each. Used by doctor.
create index workflow_step_long on workflow_step (job_id) where sequence = 5000;

-- The waits of executions: for a signal, the end of a sleep or a retry delay, the end of children, the limit of a step, or
-- other code. The suspension inserts or locks the rows it waits for, and a completion does the same, so that one of them
-- sees the other. A signal may arrive before its execution starts. A row of the kind `heartbeat` is the last heartbeat of
-- a step, for its next attempt: `created_at` is when the attempt began, `due_at` when it times out, `completed_at` when the
-- heartbeat was sent.
-- The further values of a signal have rows of the kind `value`, numbered in the order of their arrival: `step.next` waits
-- for the row of the next number. The row of the first value counts them; the sender of a value holds its lock until the
-- commit. A row of the kind `ask` is an ask, with its answer once it has one.
create table workflow_deferred (
  -- The dedupe key of the execution's job.
  execution text not null,
  kind text not null,
  name text not null,
  created_at timestamptz not null,
  -- The end of a sleep, or the timeout of a signal.
  due_at timestamptz,
  completed_at timestamptz,
  -- Children that have not ended.
  remaining int,
  -- Whether the execution is suspended until this wait ends.
  waiting boolean not null default false,
  -- Completed before its execution existed.
  early boolean not null default false,
  -- The number of values that have arrived, in the row of the first one. Null means at most one.
  arrived int,
  -- The size of the further values as JSON, in bytes.
  arrived_bytes int,
  exit jsonb,
  -- A value of a signal: the signal's name if that is not `name`, and the id that its sender chose.
  signal text,
  value_id text,

  constraint workflow_deferred_pkey primary key (execution, kind, name),
  constraint workflow_deferred_kind_known check (
    kind in ('signal', 'value', 'message', 'sleep', 'retry', 'children', 'changed', 'limit', 'heartbeat', 'ask', 'answer')
  )
) with (fillfactor = 70);

-- Used to find a value that is sent again with the same id.
create index workflow_deferred_value on workflow_deferred (execution, signal, value_id) where value_id is not null;

-- Used by the purge: signals to executions that were never started.
create index workflow_deferred_early on workflow_deferred (created_at) where early;

-- A job that an execution started. The end of the job decrements `remaining` of the parent's workflow_deferred row with
-- the kind `children` and this name; at 0 the parent wakes up once.
create table workflow_child (
  -- The execution that started the child.
  parent text not null,
  name text not null,
  position int not null,
  child uuid not null,
  -- Created by this parent: cancelling the parent cancels the child.
  owned boolean not null,
  -- Set when the parent was notified, or at once if the parent does not wait.
  ended_at timestamptz,

  constraint workflow_child_pkey primary key (parent, name, position)
);

-- Used when a job ends whose end executions count, and to show the parents of an execution.
create index workflow_child_child on workflow_child (child);

-- A step whose concurrency is limited: it waits for a permit, was called to take one, or holds one. A permit is valid while
-- the run that took it has its lease.
create table workflow_permit (
  job_id uuid not null,
  -- The run that holds the permit.
  lease uuid,
  -- When the step asked first. The longest wait is called first.
  since timestamptz not null,
  -- When the step was called. The permit is kept for it for 30 seconds.
  called_at timestamptz,
  -- The workflow and the name of the step in its code, whose permits are counted together.
  scope text not null,
  -- The name of the step in the journal.
  step text not null,

  constraint workflow_permit_pkey primary key (job_id, step),
  constraint workflow_permit_state_consistent check (lease is null or called_at is null)
) with (fillfactor = 70);

create index workflow_permit_taken on workflow_permit (scope) where lease is not null or called_at is not null;
create index workflow_permit_waiting on workflow_permit (scope, since, job_id) where lease is null and called_at is null;

-- Takes a permit for a step of the run with this lease, or, with `returns_`, returns it. Calls the steps that are next and
-- returns their executions, which the caller wakes. `place` counts the steps that are called before this one, up to 1000.
create function turn_permit(scope_ text, job_ uuid, step_ text, lease_ uuid, most_ int, now_ms float8, returns_ boolean)
returns table (granted boolean, place int, woken text[])
language plpgsql
set search_path from current
as $$
#variable_conflict use_column
declare
  now_ timestamptz := to_timestamp(now_ms / 1000);
  called text[];
  is_granted boolean;
  ahead int;
begin
  perform pg_advisory_xact_lock(hashtextextended(current_schema() || '.permit.' || scope_, 0));
  -- Runs that have ended, and steps that did not come when they were called. The one that asks now has come, if late.
  delete from workflow_permit p where p.scope = scope_ and (p.lease is not null or p.called_at is not null)
    and (p.called_at < now_ - interval '30 seconds' and (p.job_id, p.step) <> (job_, step_)
      or p.lease is not null and not exists (select from job j where j.id = p.job_id and j.lease = p.lease));
  if returns_ then
    -- Not the permit of a later run of the execution: this one may have lost its lease.
    delete from workflow_permit p where p.job_id = job_ and p.step = step_ and (p.lease is null or p.lease = lease_);
  else
    insert into workflow_permit as p (job_id, step, scope, since) values (job_, step_, scope_, now_)
    on conflict (job_id, step) do update set scope = excluded.scope, since = excluded.since, lease = null, called_at = null
      where p.scope <> excluded.scope;
  end if;
  -- Executions that have ended.
  delete from workflow_permit p using (
    select w.job_id, w.step from workflow_permit w where w.scope = scope_ and w.lease is null and w.called_at is null
    order by w.since, w.job_id limit 100
  ) w
  where p.job_id = w.job_id and p.step = w.step
    and not exists (select from job j where j.id = p.job_id and j.finished_at is null);

  with next as (
    select w.job_id, w.step from workflow_permit w where w.scope = scope_ and w.lease is null and w.called_at is null
    order by w.since, w.job_id, w.step
    limit greatest(0, most_ - (select count(*) from workflow_permit p
      where p.scope = scope_ and (p.lease is not null or p.called_at is not null)))
  ), calls as (
    update workflow_permit p set called_at = now_ from next where p.job_id = next.job_id and p.step = next.step
    returning p.job_id, p.step
  )
  select array_agg(distinct j.dedupe_key) into called from calls join job j on j.id = calls.job_id
  where (calls.job_id, calls.step) <> (job_, step_);

  update workflow_permit p set lease = lease_, called_at = null
  where p.job_id = job_ and p.step = step_ and not returns_ and (p.called_at is not null or p.lease = lease_);
  is_granted := found;
  select count(*)::int into ahead from (
    select from workflow_permit w join workflow_permit own on own.job_id = job_ and own.step = step_
    where w.scope = scope_ and w.lease is null and w.called_at is null and w.since < own.since limit 1000
  ) before;
  return query select is_granted, ahead, coalesce(called, '{}');
end
$$;

-- A stream that a step of an execution writes. Every attempt of the step, and every repetition after a crash, begins a new
-- generation and deletes the chunks of the last one. The stream has ended when the attempt is recorded in workflow_step, or
-- when the execution has ended or has continued with a new journal.
create table workflow_stream (
  job_id uuid not null,
  -- The start of this generation.
  started_at timestamptz not null,
  generation int not null,
  -- The attempt of the step that writes this generation.
  attempt smallint not null,
  -- The name of the step.
  name text not null,
  -- How the stream ended in an earlier journal of the execution.
  outcome text,

  constraint workflow_stream_pkey primary key (job_id, name),
  constraint workflow_stream_outcome_known check (outcome in ('done', 'failed', 'interrupted'))
);

-- Chunks of a stream that were written together: `count` of them, the first with this number. Inserted only by the holder
-- of the job's lease, as a step is.
create table workflow_chunk (
  job_id uuid not null,
  -- The size of the stream up to and including these chunks, as JSON.
  bytes bigint not null,
  generation int not null,
  number int not null,
  count int not null,
  name text not null,
  -- A JSON array. Text, because jsonb cannot store every string: a chunk may end between two halves of a character.
  chunks text not null,

  constraint workflow_chunk_pkey primary key (job_id, name, generation, number)
);

-- What few executions have: how often they went on with a new journal, and the release that they are pinned to. Other
-- executions have no row. Deleted with the journal.
create table workflow_lifetime (
  job_id uuid not null,
  -- How often the execution continued with a new payload and an empty journal.
  continued int not null default 0,
  -- The only release of the code that may run the execution. Null if any may.
  release text,
  -- The job's `woken` when a pod with another release returned the execution for a pod with this one. Not valid if
  -- `woken` has changed since.
  parked int,

  constraint workflow_lifetime_pkey primary key (job_id)
);

-- Executions by the release that they are pinned to. Used by doctor.
create index workflow_lifetime_release on workflow_lifetime (release) where release is not null;

-- Executions that are left to a release. Used by pods with that release.
create index workflow_lifetime_parked on workflow_lifetime (release) where parked is not null;

-- A tag of an execution, by which it is found.
create table workflow_tag (
  job_id uuid not null,
  name text not null,
  value text not null,

  constraint workflow_tag_pkey primary key (job_id, name)
);

-- Used by the list of executions with a tag, newest first.
create index workflow_tag_value on workflow_tag (name, value, job_id);

-- Sets the tags of the execution with the job id `id`: `tags` is an object of texts, and null removes a tag. Returns whether the
-- execution exists. A function, because programs call it in transactions of other libraries, with one text parameter.
create function set_tags(request jsonb) returns boolean
language sql
set search_path from current
as $$
  with locked as (
    -- Against a deletion of the job, which deletes its tags.
    select id from job where id = (request->>'id')::uuid and woken is not null for key share
  ), given as (
    select locked.id, t.key as name, t.value from locked cross join jsonb_each_text(request->'tags') t
  ), removed as (
    delete from workflow_tag t using given g where t.job_id = g.id and t.name = g.name and g.value is null
  ), stored as (
    insert into workflow_tag (job_id, name, value) select id, name, value from given where value is not null order by name
    on conflict (job_id, name) do update set value = excluded.value
  )
  select exists (select from locked)
$$;

-- Sends signals to executions and wakes them: `executions`, `names`, `ids` and `exits` in parallel, `now_ms` in epoch
-- milliseconds. Returns one row per signal, with the queue of the execution to notify. `outcome` is completed for the first
-- value of a signal, appended for a further one, repeated if a value with this id is stored, full if nothing was stored.
-- A function because each statement needs a newer snapshot than the one before: an execution that starts and suspends
-- while the first waits for its row must be woken, and values are numbered after those of other transactions.
create function complete_deferred(executions text[], names text[], ids text[], exits jsonb, now_ms float8)
returns table (place int, outcome text, job_id uuid, queue text, priority smallint, run_at float8)
language plpgsql
set search_path from current
-- Otherwise the statements are planned at every call, because a plan for arrays of one element looks cheaper.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  now_ timestamptz := to_timestamp(now_ms / 1000);
  most constant int := 10000;
  -- Of the values after the first.
  most_bytes constant int := 16777216;
  -- Places whose value is the first of its signal, is a further one, or has no room.
  fresh int[];
  further int[];
  refused int[];
begin
  with given as (
    select distinct on (g.execution, g.name) g.* from rows from (unnest(executions), unnest(names), unnest(ids),
      jsonb_array_elements(exits)) with ordinality as g(execution, name, id, exit, place)
    order by g.execution, g.name, g.place
  ), stored as (
    insert into workflow_deferred as d (execution, kind, name, created_at, completed_at, exit, early, signal, value_id)
    -- Not `not exists`, for which a plan may read all executions.
    select g.execution, 'signal', g.name, now_, now_, g.exit, (
      select j.id from job j where j.dedupe_key = g.execution and j.dedupe_scope = 'retained' and j.woken is not null limit 1
    ) is null, case when g.id is not null then g.name end, g.id
    from given g
    -- Locks the row even if the condition is false.
    on conflict (execution, kind, name) do update set completed_at = now_, exit = excluded.exit,
      signal = excluded.signal, value_id = excluded.value_id
      where d.completed_at is null
    returning d.execution, d.name
  )
  select array_agg(g.place::int) into fresh
  from given g join stored s on s.execution = g.execution and s.name = g.name;

  if coalesce(cardinality(fresh), 0) < cardinality(executions) then
    with given as (
      select distinct on (g.execution, g.name, g.id, case when g.id is null then g.place end) g.*
      from rows from (unnest(executions), unnest(names), unnest(ids), jsonb_array_elements(exits))
        with ordinality as g(execution, name, id, exit, place)
      where fresh is null or g.place <> all(fresh)
      order by g.execution, g.name, g.id, case when g.id is null then g.place end, g.place
    ), numbered as (
      select g.*, f.early, coalesce(f.arrived, 1) + row_number() over own as number,
        coalesce(f.arrived_bytes, 0) + sum(octet_length(g.exit::text)) over own as bytes
      from given g join workflow_deferred f on f.execution = g.execution and f.kind = 'signal' and f.name = g.name
      where g.id is null or not exists (
        select from workflow_deferred d where d.execution = g.execution and d.signal = g.name and d.value_id = g.id)
      window own as (partition by g.execution, g.name order by g.place)
    ), fitting as (
      select * from numbered where number <= most and bytes <= most_bytes
    ), counted as (
      update workflow_deferred d set arrived = n.number, arrived_bytes = n.bytes
      from (select execution, name, max(number)::int as number, max(bytes)::int as bytes from fitting group by 1, 2) n
      where d.execution = n.execution and d.kind = 'signal' and d.name = n.name
    ), stored as (
      insert into workflow_deferred as d (execution, kind, name, created_at, completed_at, exit, early, signal, value_id)
      select n.execution, 'value', n.name || '#' || n.number, now_, now_, n.exit, n.early, n.name, n.id
      from fitting n order by 1, 3
      on conflict (execution, kind, name) do update set completed_at = now_, exit = excluded.exit,
        signal = excluded.signal, value_id = excluded.value_id
        where d.completed_at is null
    )
    select array_agg(n.place::int) filter (where n.number <= most and n.bytes <= most_bytes),
      array_agg(n.place::int) filter (where n.number > most or n.bytes > most_bytes)
    into further, refused from numbered n;
  end if;

  return query
    -- The conditions on places are always true. They make the planner expect one row, whose plan reads no whole table.
    with locked as (
      select j.id from unnest(executions) with ordinality as g(execution, place)
      join job j on j.dedupe_key = g.execution
      where j.dedupe_scope = 'retained' and j.woken is not null and j.finished_at is null
        -- An execution that has never run reads its waits when it does.
        and (j.woken > 0 or j.lease is not null) and g.place between 1 and 1000000000
      order by j.id desc for no key update of j
    ), woke as (
      update job j set woken = j.woken + 1,
        run_at = case when j.lease is null then least(j.run_at, now_) else j.run_at end
      from (select id, row_number() over () as place from locked) locked
      where j.id = locked.id and locked.place between 1 and 1000000000
      returning j.id, j.dedupe_key, j.queue, j.priority, j.run_at
    )
    select g.place::int, case when g.place = any(fresh) then 'completed' when g.place = any(further) then 'appended'
        when g.place = any(refused) then 'full' else 'repeated' end,
      w.id, w.queue, w.priority, floor(extract(epoch from w.run_at) * 1000)::float8
    from unnest(executions) with ordinality as g(execution, place) left join woke w on w.dedupe_key = g.execution
    order by 1;
end
$$;

-- Sends a signal to a workflow execution, in the caller's transaction; for programs without the client. Returns
-- `completed` for the first value of the signal, `appended` for a further one, which only `step.next` receives, or
-- `repeated` if a value with this `id` was sent before. Pods are notified when the transaction commits.
create function signal(execution text, name text, value jsonb default 'null', id text default null) returns text
language plpgsql
set search_path from current
as $$
declare
  answer record;
begin
  if coalesce(length(signal.execution), 0) not between 1 and 512 then
    raise exception 'execution must be 1 to 512 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if coalesce(length(signal.name), 0) not between 1 and 256 then
    raise exception 'name must be 1 to 256 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if length(signal.id) not between 1 and 256 then
    raise exception 'id must be 1 to 256 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if octet_length(signal.value::text) > 65536 then
    raise exception 'value is larger than 65536 bytes as JSON' using errcode = 'program_limit_exceeded',
      hint = 'Send the key under which you store it.';
  end if;
  select * into answer from complete_deferred(array[signal.execution], array[signal.name], array[signal.id],
    jsonb_build_array(signal.value), floor(extract(epoch from clock_timestamp()) * 1000)::float8);
  if answer.outcome = 'full' then
    raise exception 'the signal % of execution % has no room for this value', signal.name, signal.execution
      using errcode = 'program_limit_exceeded',
        hint = 'It has at most 10000 values, of 16 MiB together. Continue the execution with step.continueAs, or use another name.';
  end if;
  if answer.queue is not null then
    perform pg_notify(current_schema || '_work', answer.queue);
  end if;
  return answer.outcome;
end
$$;

-------------------------------------------------------------------------------------------------------------- queues

-- The settings of a queue. A queue without a row has the defaults. The row is inserted when a pod serves the queue, when
-- a setting is changed, or when a job of the queue is throttled.
create table queue (
  name text not null,
  -- Slots of the whole cluster, which the leader divides among the pods (table share).
  max_workers int not null default 10,
  paused boolean not null default false,
  -- How long finished jobs are kept. Null: the retention of the configuration.
  retain_done interval,
  retain_dead interval,
  -- How long claims stop after a throttled job whose upstream named no delay: a minute, or if enabled this curve, which
  -- doubles with every throttle in a row.
  backoff_enabled boolean not null default false,
  backoff_base interval not null default '60 seconds',
  backoff_max interval not null default '30 minutes',

  -- At most rate_jobs claims per rate_per, as a token bucket. Null tokens mean that the bucket is full.
  rate_jobs int,
  rate_per interval,
  rate_tokens float8,
  rate_filled_at timestamptz,

  -- How many jobs of one key may run at once, and whether they keep their order.
  key_concurrency int,
  key_order text,
  -- Enqueue refuses jobs while this many wait.
  depth_cap int,

  -- No job of this queue is claimed before this instant, because a job was throttled.
  throttled_until timestamptz,
  -- Throttles in a row, and when a job first succeeded after the last one.
  throttle_attempts int not null default 0,
  calm_since timestamptz,
  -- The latest cooling_until in key_turn: until then claims must look at keys.
  keys_cooling_until timestamptz,

  -- The settings that a worker declared last, as text by field. A setting that differs from its declaration was set by
  -- an operator and stays.
  declared jsonb not null default '{}',
  -- Incremented by every change of the settings. A claim by key compares it with what it read.
  revision int not null default 1,
  created_at timestamptz not null,
  updated_at timestamptz not null,

  constraint queue_pkey primary key (name),
  constraint queue_name_format check (name ~ '^[A-Za-z0-9_.-]{1,64}$'),
  constraint queue_rate_consistent check (
    (rate_jobs is null) = (rate_per is null) and (rate_tokens is null) = (rate_filled_at is null)
  ),
  constraint queue_key_limit_consistent check ((key_concurrency is null) = (key_order is null)),
  constraint queue_key_order_known check (key_order in ('none', 'serial', 'strict')),
  -- Jobs that keep their order run one at a time.
  constraint queue_key_order_consistent check (key_order = 'none' or key_concurrency = 1)
) with (
  -- A few rows, some of them updated by every claim: the free space keeps all versions of a row on its page.
  fillfactor = 20
);

-- The turn of a key, only in queues that limit keys or cool them down. A claim reads which jobs of the key are running
-- and increments `turn`; if another claim has incremented it since, the count is stale and the claim takes nothing of
-- this key. Finalize does not touch the row: finished jobs only make room.
create table key_turn (
  queue text not null,
  key text not null,
  turn bigint not null,
  turned_at timestamptz not null,
  -- Jobs of the last claims. Whether they still run, or in strict order are unfinished, is read from their rows.
  taken uuid[] not null default '{}',
  -- No job of this key is claimed before this instant.
  cooling_until timestamptz,

  constraint key_turn_pkey primary key (queue, key)
) with (
  -- Updated by every claim, never in an indexed column.
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

--------------------------------------------------------------------------------------------------------------- kinds

-- A kind as the pods that serve it registered it, so that processes without its code can validate and route its jobs.
create table kind (
  name text not null,
  -- Where jobs of this kind are enqueued. If `routed`, a matching route takes precedence.
  queue text not null,
  routed boolean not null default false,
  version int not null,
  max_attempts smallint not null,
  priority smallint not null default 0,
  -- A workflow: its jobs are executions, which are started and not enqueued.
  workflow boolean not null default false,
  on_dead jsonb,
  -- The payload as JSON Schema. Null where the kind's code declares none.
  schema jsonb,
  registered_at timestamptz not null,
  updated_at timestamptz not null,

  constraint kind_pkey primary key (name)
);

-- A declared route: kinds whose name starts with `prefix` and that name no queue are enqueued in `queue`.
create table route (
  prefix text not null,
  queue text not null,
  registered_at timestamptz not null,
  updated_at timestamptz not null,

  constraint route_pkey primary key (prefix)
);

-- The queue of the longest prefix that matches, or null. The same rule as in the program (Routes).
create function route_of(kind text) returns text
language sql stable
set search_path from current
as $$
  select r.queue from route r where starts_with(route_of.kind, r.prefix) order by length(r.prefix) desc limit 1
$$;

-- An integer in the payload that a handler would read as a different number, or null: handlers read 64-bit floats.
-- Fractions are not checked. The same rule as in the program (JsonNumbers).
create function lost_number(payload jsonb) returns numeric
language sql immutable
set search_path from current
set extra_float_digits = 1
as $$
  select found.n from (
    select (number #>> '{}')::numeric as n
    from jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') as number
  ) found
  where case
    when abs(found.n) <= 9007199254740992 then found.n <> 0 and abs(found.n) < 2.5e-324
    when abs(found.n) > 1.7976931348623157e308 then true
    when found.n <> trunc(found.n) then false
    when abs(found.n) < 9e18 and found.n::float8::bigint = found.n then false
    -- A float keeps any fifteen significant digits.
    when length(trim('0' from trunc(abs(found.n))::text)) <= 15 then false
    else found.n::float8::text::numeric <> found.n
  end
  limit 1
$$;

-- The number of jobs that count toward the depth cap of a queue, up to `most`. Sleeping executions do not count. Null without a
-- limit.
create function waiting_jobs(queue text, most int, now_ms float8) returns int
language sql stable strict
set search_path from current
as $$
  select count(*)::int from (
    select from job j where j.queue = waiting_jobs.queue and j.finished_at is null and j.lease is null
      and (j.woken is null or j.run_at <= to_timestamp(waiting_jobs.now_ms / 1000)) limit waiting_jobs.most
  ) counted
$$;

-- Stores a job, or decides its conflict with a job of the same id or dedupe key: the only place that replaces jobs and
-- takes lapsed keys. `created_at` is the time of the call. The outcome is `enqueued`; `repeated`, if an earlier request
-- stored the job; `deduplicated`, with the id of the job that holds the key; `id_taken`, if a job with this id has other
-- content; or `queue_full`, if `capped`.
create function store_job(fresh job, replaces boolean, capped boolean, out id uuid, out outcome text)
language plpgsql
set search_path from current
as $$
#variable_conflict use_column
declare
  holder record;
  cap int;
begin
  -- A payload of JSON null arrives as null from enqueue_jobs().
  fresh.payload := coalesce(fresh.payload, 'null');
  -- The holder of the dedupe key may release it, or another job may take it, between the lookup and the insert.
  for try in 1..10 loop
    select j.id, (j.kind, j.version, j.queue, j.payload) = (fresh.kind, fresh.version, fresh.queue, fresh.payload) as is_same
    into holder from job j where j.id = fresh.id;
    if found then
      id := fresh.id;
      outcome := case when holder.is_same then 'repeated' else 'id_taken' end;
      return;
    end if;
    select j.id, j.kind, j.queue, coalesce(j.finished_at is not null and j.dedupe_until <= fresh.created_at, false) as lapsed
    into holder from job j
    where j.dedupe_key = fresh.dedupe_key and (j.dedupe_scope = 'retained' or j.finished_at is null);
    if holder.id is not null and not holder.lapsed then
      -- The handler of another kind could not decode the payload.
      if replaces and holder.kind = fresh.kind then
        update job j set payload = fresh.payload, version = fresh.version, run_at = fresh.run_at, priority = fresh.priority,
          updated_at = fresh.created_at
        where j.id = holder.id and j.status = 'pending';
        if found then
          perform pg_notify(current_schema || '_work', holder.queue);
        end if;
      end if;
      id := holder.id;
      outcome := 'deduplicated';
      return;
    end if;
    if holder.lapsed then
      update job j set dedupe_key = null, dedupe_scope = null, dedupe_until = null
      where j.id = holder.id and j.finished_at is not null and j.dedupe_until <= fresh.created_at;
    end if;
    if capped then
      select q.depth_cap into cap from queue q where q.name = fresh.queue;
      if cap <= waiting_jobs(fresh.queue, cap, extract(epoch from fresh.created_at)::float8 * 1000) then
        outcome := 'queue_full';
        return;
      end if;
    end if;
    insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, key, dedupe_key, dedupe_scope,
      dedupe_until, on_dead, meta, batch_id, woken, is_child, created_at, updated_at)
    select fresh.id, fresh.queue, fresh.kind, fresh.version, fresh.payload, fresh.priority, follows.run_at,
      fresh.max_attempts, fresh.key, fresh.dedupe_key, fresh.dedupe_scope, fresh.dedupe_until, fresh.on_dead, fresh.meta,
      fresh.batch_id, fresh.woken, fresh.is_child, follows.created_at, fresh.created_at
    from behind_key(fresh.queue, fresh.key, fresh.priority, fresh.id, fresh.run_at, fresh.created_at) follows
    on conflict do nothing;
    if found then
      id := fresh.id;
      outcome := 'enqueued';
      return;
    end if;
  end loop;
  raise exception 'another job took and released the dedupe key at every try' using errcode = 'serialization_failure';
end
$$;

-- Stores a job in the caller's transaction and returns its id; for triggers and for programs without the client. It
-- applies the limits of the HTTP API and raises an exception with an SQLSTATE for each. If another job holds the dedupe
-- key, it returns that job's id and stores nothing. Pods are notified when the transaction commits.
create function enqueue(
  kind text,
  payload jsonb,
  queue text default null,
  run_at timestamptz default null,
  priority int default null,
  dedupe_key text default null,
  attempts int default null,
  key text default null,
  meta jsonb default null,
  delay interval default null,
  force boolean default false,
  dedupe_scope text default null,
  dedupe_window interval default null,
  dedupe_replace boolean default false
) returns uuid
language plpgsql
set search_path from current
as $$
#variable_conflict use_column
declare
  now_ timestamptz := clock_timestamp();
  known kind%rowtype;
  payload_text text := enqueue.payload::text;
  target text;
  rank int;
  follow_up jsonb;
  start timestamptz;
  lost numeric;
  scope text;
  -- UUID version 7: the server's milliseconds, then random bits. PostgreSQL has a function for it only since 18.
  new_id uuid := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send((extract(epoch from now_) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid;
  fresh job%rowtype;
  answer record;
begin
  select * into known from kind k where k.name = enqueue.kind;
  if not found and enqueue.force is not true then
    raise exception 'No process has ever registered the kind "%".', enqueue.kind
      using errcode = 'check_violation', hint = 'Start a process that serves it first, or add force => true.';
  end if;
  if enqueue.kind is null or length(enqueue.kind) not between 1 and 128 then
    raise exception 'kind must be 1 to 128 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.payload is null then
    raise exception 'payload must not be null' using errcode = 'null_value_not_allowed';
  end if;
  if octet_length(payload_text) > 1048576 then
    raise exception 'payload is larger than 1048576 bytes as JSON' using errcode = 'program_limit_exceeded';
  end if;
  -- The cheap tests on the text come first: few payloads have this many brackets or numbers this long.
  if length(payload_text) - length(translate(payload_text, '[{', '')) > 1000 then
    if jsonb_path_exists(enqueue.payload, 'strict $.**{1000} ? (@.type() == "array" || @.type() == "object")') then
      raise exception 'payload must not be nested more than 1000 levels deep' using errcode = 'program_limit_exceeded';
    end if;
  end if;
  if payload_text ~ '[0-9.]{16}' then
    lost := lost_number(enqueue.payload);
    if lost is not null then
      raise exception 'payload holds %, which a 64-bit float cannot hold', left(lost::text, 40)
        using errcode = 'numeric_value_out_of_range', hint = 'Send the number as a string.';
    end if;
  end if;
  rank := coalesce(enqueue.priority, known.priority, 0);
  if rank not between -32768 and 32767 then
    raise exception 'priority must be a whole number from -32768 to 32767' using errcode = 'numeric_value_out_of_range';
  end if;
  target := coalesce(enqueue.queue,
    case when coalesce(known.routed, true) then route_of(enqueue.kind) end, known.queue, 'default');
  if target !~ '^[A-Za-z0-9_.-]{1,64}$' then
    raise exception 'queue must be 1 to 64 letters, digits, _, . or -' using errcode = 'invalid_parameter_value';
  end if;
  follow_up := known.on_dead;
  if known.on_dead ? 'routed' then
    follow_up := (known.on_dead - 'routed')
      || jsonb_build_object('queue', coalesce(route_of(known.on_dead->>'kind'), known.on_dead->>'queue'));
  end if;
  attempts := coalesce(enqueue.attempts, known.max_attempts, 5);
  if attempts not between 1 and 1000 then
    raise exception 'attempts must be a whole number from 1 to 1000' using errcode = 'numeric_value_out_of_range';
  end if;
  if length(enqueue.dedupe_key) not between 1 and 512 then
    raise exception 'dedupe_key must be 1 to 512 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.dedupe_key is null
    and (enqueue.dedupe_scope is not null or enqueue.dedupe_window is not null or enqueue.dedupe_replace) then
    raise exception 'dedupe_scope, dedupe_window and dedupe_replace need a dedupe_key' using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.dedupe_key is not null then
    scope := coalesce(enqueue.dedupe_scope, case when enqueue.dedupe_window is null then 'active' else 'retained' end);
  end if;
  if scope not in ('active', 'retained') then
    raise exception 'dedupe_scope must be active or retained, got %', left(scope, 40) using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.dedupe_window is not null and scope = 'active' then
    raise exception 'dedupe_window needs the dedupe_scope retained, got active' using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.dedupe_window < interval '0' or enqueue.dedupe_window > interval '36500 days' then
    raise exception 'dedupe_window must be between 0 and 36500 days' using errcode = 'interval_field_overflow';
  end if;
  if length(enqueue.key) not between 1 and 512 then
    raise exception 'key must be 1 to 512 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if jsonb_typeof(enqueue.meta) <> 'object' then
    raise exception 'meta must be a JSON object' using errcode = 'invalid_parameter_value';
  end if;
  if octet_length(enqueue.meta::text) > 65536 then
    raise exception 'meta is larger than 65536 bytes as JSON' using errcode = 'program_limit_exceeded';
  end if;
  if enqueue.delay is not null and enqueue.run_at is not null then
    raise exception 'pass run_at or delay, not both' using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.delay < interval '0' or enqueue.delay > interval '36500 days' then
    raise exception 'delay must be between 0 and 36500 days' using errcode = 'interval_field_overflow';
  end if;
  start := coalesce(enqueue.run_at, now_ + enqueue.delay, now_);
  if start < '1970-01-01 00:00:00+00' or start >= '10000-01-01 00:00:00+00' then
    raise exception 'run_at must be an instant of the years 1970 to 9999' using errcode = 'datetime_field_overflow';
  end if;

  fresh.id := new_id;
  fresh.queue := target;
  fresh.kind := enqueue.kind;
  fresh.version := coalesce(known.version, 1);
  fresh.payload := enqueue.payload;
  fresh.priority := rank;
  fresh.run_at := start;
  fresh.max_attempts := attempts;
  fresh.key := enqueue.key;
  fresh.dedupe_key := enqueue.dedupe_key;
  fresh.dedupe_scope := scope;
  fresh.dedupe_until := now_ + enqueue.dedupe_window;
  fresh.on_dead := follow_up;
  fresh.meta := enqueue.meta;
  fresh.created_at := now_;
  answer := store_job(fresh, enqueue.dedupe_replace, true);
  if answer.outcome = 'queue_full' then
    raise exception 'Queue "%" is full: it has reached its depth cap of % waiting jobs.', target,
      (select q.depth_cap from queue q where q.name = target)
      using errcode = 'configuration_limit_exceeded', hint = 'Try again when it has drained, or raise its depth cap.';
  end if;
  if answer.outcome = 'enqueued' then
    perform pg_notify(current_schema || '_work', target);
  end if;
  return answer.id;
end
$$;

-- Stores the jobs of one request, all or none, in one statement. The program calls it for jobs that conflict, and on
-- connections of other PostgreSQL libraries, and has validated the jobs. `request` holds `now` in epoch milliseconds;
-- `jobs`, with the names of the columns and `replace`; `lock_timeout`, the wait for a key that another transaction holds,
-- unless the caller's own setting applies; and `notify`, the notifications to send. Returns a row per job, with its place
-- from 0 and an outcome of store_job(). A single row `id_taken` or `queue_full`, with the cap as its note, means that
-- nothing was stored: the caller's transaction is not aborted. SQL users call enqueue() instead.
--
-- The first statement finds the jobs that conflict by the rules of store_job(), which finds them for one job: change
-- both together. A function for both would be called once per job, because PostgreSQL inlines no function with a
-- `search_path`, and every function here has one: temporary tables of the caller must not hide the tables of the schema.
create function enqueue_jobs(request jsonb)
returns table (place int, id uuid, outcome text, note text)
language plpgsql
set search_path from current
-- Planning takes longer than a call with one job.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  now_ timestamptz := to_timestamp((request->>'now')::float8 / 1000);
  standing int[];
  answered int[];
  places int[];
  ids uuid[];
  outcomes text[];
  given record;
  answer record;
begin
  -- The conflicts of all jobs at once: most jobs of a call are duplicates, which this statement decides. Jobs that replace
  -- others are left to store_job().
  select coalesce(array_agg(s.place), '{}'), coalesce(array_agg(s.place) filter (where not s.replaces), '{}'),
    array_agg(s.id) filter (where not s.replaces), array_agg(s.outcome) filter (where not s.replaces)
  into standing, places, ids, outcomes
  from (
    select g.place::int, coalesce(own.id, holder.id) as id, own.id is null and coalesce(g.replace, false) as replaces,
      case when own.id is null then 'deduplicated' when own.is_same then 'repeated' else 'id_taken' end as outcome
    from rows from (jsonb_to_recordset(request->'jobs') as (id uuid, queue text, kind text, version int, payload jsonb,
      dedupe_key text, replace boolean)) with ordinality as g(id, queue, kind, version, payload, dedupe_key, replace, place)
    left join lateral (
      select j.id, (j.kind, j.version, j.queue, j.payload) = (g.kind, g.version, g.queue, coalesce(g.payload, 'null')) as is_same
      from job j where j.id = g.id limit 1
    ) own on true
    left join lateral (
      select j.id from job j
      where j.dedupe_key = g.dedupe_key and (j.dedupe_scope = 'retained' or j.finished_at is null)
        and (j.finished_at is null or j.dedupe_until > now_ or j.dedupe_until is null)
      limit 1
    ) holder on true
    where coalesce(own.id, holder.id) is not null
    order by 1
  ) s;
  if 'id_taken' = any(outcomes) then
    return query select places[p] - 1, ids[p], 'id_taken', null::text from array_position(outcomes, 'id_taken') as p;
    return;
  end if;
  -- A job that exists needs no room, and jobs with the same key need room for one.
  return query
    select g.place::int - 1, null::uuid, 'queue_full', g.cap::text
    from (
      select min(g.place) as place, g.queue, q.depth_cap as cap,
        count(distinct coalesce('key ' || g.dedupe_key, g.id::text)) as newcomers
      from rows from (jsonb_to_recordset(request->'jobs') as (id uuid, queue text, dedupe_key text))
        with ordinality as g(id, queue, dedupe_key, place)
      join queue q on q.name = g.queue and q.depth_cap is not null
      where g.place <> all(standing)
      group by g.queue, q.depth_cap
    ) g
    where g.cap - g.newcomers < waiting_jobs(g.queue, g.cap, (request->>'now')::float8)
    order by g.place limit 1;
  if found then
    return;
  end if;
  return query select unnest(places) - 1, unnest(ids), unnest(outcomes), null::text;
  if cardinality(places) = jsonb_array_length(request->'jobs') then
    return;
  end if;
  answered := places;

  if request ? 'lock_timeout' then
    perform set_config('lock_timeout', request->>'lock_timeout', true);
  end if;
  -- All transactions take dedupe keys in the same order, to avoid deadlocks.
  with given as materialized (
    select g.place, f.* from jsonb_array_elements(request->'jobs') with ordinality as g(job, place)
    cross join lateral jsonb_populate_record(null::job, g.job) f
    where g.place <> all(standing)
  ), stored as (
    insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, key, dedupe_key, dedupe_scope,
      dedupe_until, on_dead, meta, batch_id, woken, is_child, created_at, updated_at)
    select g.id, g.queue, g.kind, g.version, coalesce(g.payload, 'null'), g.priority, follows.run_at, g.max_attempts, g.key,
      g.dedupe_key, g.dedupe_scope, g.dedupe_until, g.on_dead, g.meta, g.batch_id, g.woken, g.is_child, follows.created_at, now_
    from given g cross join lateral behind_key(g.queue, g.key, g.priority, g.id, g.run_at, now_) follows
    order by g.dedupe_key collate "C" nulls first, g.place
    on conflict do nothing
    returning id
  )
  select coalesce(array_agg(g.place), '{}'), array_agg(g.id) into places, ids from given g join stored s on s.id = g.id;
  return query select unnest(places) - 1, unnest(ids), 'enqueued', null::text;
  answered := answered || places;

  for given in
    select g.place::int - 1 as place, f as fresh, coalesce((g.job->>'replace')::boolean, false) as replaces
    from jsonb_array_elements(request->'jobs') with ordinality as g(job, place)
    cross join lateral jsonb_populate_record(null::job, g.job || jsonb_build_object('created_at', now_)) f
    where g.place <> all(answered)
    order by f.dedupe_key collate "C" nulls first, g.place
  loop
    answer := store_job(given.fresh, given.replaces, false);
    -- Another transaction has stored it since the first statement.
    if answer.outcome = 'id_taken' then
      raise exception 'a job with the id % has just been stored', answer.id using errcode = 'serialization_failure';
    end if;
    return query select given.place, answer.id, answer.outcome, null::text;
  end loop;

  perform pg_notify(current_schema || '_work', payload) from jsonb_array_elements_text(request->'notify') as payload;
end
$$;

----------------------------------------------------------------------------------------------------------- schedules

-- A recurring job: cron expression, time zone, and what to do about overlapping and missed runs.
create table schedule (
  name text not null,
  kind text not null,
  payload jsonb not null,
  cron text not null,
  timezone text not null default 'UTC',
  -- Null: the kind's own.
  queue text,
  max_attempts smallint,
  overlap text not null default 'allow',
  missed text not null default 'one',
  missed_limit smallint,
  paused boolean not null default false,
  origin text not null default 'operator',
  -- What code declared last, and the fields an operator has changed since: a new declaration does not change those.
  fingerprint text,
  edited text[] not null default '{}',
  -- Null until a scheduler first sees the schedule. It then computes the next run and does not fire.
  next_fire_at timestamptz,
  last_fire_at timestamptz,
  last_skip_at timestamptz,
  last_error text,
  last_job_id uuid,
  -- The last outcomes, newest first, a bounded number. In this row, so that an outcome is written in the transaction it
  -- records and needs no cleanup.
  history jsonb not null default '[]',
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- An operator removed a schedule that code still declares. The row stays, so that the next start does not
  -- create the schedule again.
  removed_at timestamptz,
  -- Incremented by every write. Firing states the revision it read, so that of several schedulers one succeeds.
  revision bigint not null default 1,

  constraint schedule_pkey primary key (name),
  constraint schedule_overlap_known check (overlap in ('allow', 'skip')),
  constraint schedule_missed_known check (missed in ('one', 'none', 'all')),
  constraint schedule_missed_consistent check ((missed = 'all') = (missed_limit is not null)),
  constraint schedule_origin_known check (origin in ('code', 'operator'))
) with (fillfactor = 80);

-- Used by the scheduler: due schedules, and when the next one is due.
create index schedule_due on schedule (next_fire_at nulls first) where not paused and removed_at is null;

----------------------------------------------------------------------------------------------------------- operators

-- A bulk operation on jobs: cancel, requeue, run now or delete, by filter or by ids. It works through the jobs by id in
-- short transactions, each of which moves `reached` forward: any pod can take the next batch, and a crash leaves
-- nothing half done.
create table operation (
  id uuid not null,
  action text not null,
  status text not null default 'running',
  who text not null,
  reason text,
  filter jsonb,
  ids uuid[],
  -- The operation that this one undoes; its jobs are in job_undo.
  undoes uuid,
  undoable boolean not null default false,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  finished_at timestamptz,
  -- The highest job id when the operation began. Newer jobs have higher ids, so the operation ends.
  last_id uuid not null,
  reached uuid,
  total int,
  total_exact boolean,
  done int not null default 0,
  failed int not null default 0,
  -- How many jobs were skipped, by reason.
  skipped jsonb not null default '{}',
  -- The jobs that a requeue runs before the others: {jobs, ids, succeeded, verdict}. Null without a rehearsal.
  rehearsal jsonb,
  error text,

  constraint operation_pkey primary key (id),
  constraint operation_action_known check (action in ('cancel', 'requeue', 'run-now', 'delete', 'undo')),
  constraint operation_status_known check (status in ('running', 'done', 'cancelled', 'failed')),
  constraint operation_target_consistent check (num_nonnulls(filter, ids, undoes) = 1),
  constraint operation_end_consistent check ((status = 'running') = (finished_at is null))
);

-- Operations in progress. Used by pods that look for one to continue.
create index operation_open on operation (id) where finished_at is null;

-- A job before an operator's action, kept for an hour to undo the action. `act` is the operation, or the id that the
-- action on a single job returned. The undo changes nothing if the job has changed since `at`.
create table job_undo (
  act uuid not null,
  job_id uuid not null,
  at timestamptz not null,
  -- The job was requeued or cancelled with its parent, and is restored with it.
  below boolean not null default false,
  action text not null,
  -- The row of the job: all of it for a delete, otherwise without the columns that no action changes.
  before jsonb not null,
  -- Waits and links of a deleted execution: {waits, children}. Its steps and tags stay in their tables until this row is
  -- deleted.
  execution jsonb,

  constraint job_undo_pkey primary key (act, job_id),
  constraint job_undo_action_known check (action in ('cancel', 'requeue', 'run-now', 'delete'))
);

-- A job filter saved under a name in Mission Control, shared by all users.
create table saved_view (
  id uuid not null,
  name text not null,
  -- The list it opens, and the filter in the form of the HTTP API.
  page text not null,
  filter jsonb not null,
  created_at timestamptz not null,

  constraint saved_view_pkey primary key (id),
  constraint saved_view_name_unique unique (name),
  constraint saved_view_name_length check (length(name) between 1 and 60),
  constraint saved_view_page_known check (page in ('jobs', 'scheduled', 'retries', 'dead')),
  constraint saved_view_filter_format check (jsonb_typeof(filter) = 'object')
);

-- A change made by an operator.
create table audit (
  id uuid not null,
  at timestamptz not null,
  who text not null,
  act text not null,
  target text not null,
  reason text,
  before jsonb,
  after jsonb,

  constraint audit_pkey primary key (id)
);

-- Changes of one target, newest first. Used by the audit list with a target.
create index audit_target on audit (target, id);

------------------------------------------------------------------------------------------------------------- cluster

-- These three tables are tiny and updated often: the free space on their pages keeps the versions of a row together.

-- A running process, one row per boot. The pod updates it every second; the leader deletes rows without a heartbeat.
create table pod (
  id uuid not null,
  label text,
  version text not null,
  queues text[] not null,
  kinds text[] not null,
  -- The id of the code of each workflow, by kind.
  releases jsonb not null default '{}',
  -- Per queue: how many slots the pod wants, has, and has jobs in.
  slots jsonb not null,
  host text not null,
  os_pid int not null,
  -- How many connections the process may open. Null behind a pooler, whose connections are not its own.
  connections int,
  node_version text not null,
  draining boolean not null,
  started_at timestamptz not null,
  heartbeat_at timestamptz not null,
  -- How far the database's clock is ahead of the pod's, in seconds.
  clock_offset float8,
  -- The PostgreSQL server that stored the last heartbeat: its address and start time.
  server text,
  -- Milliseconds without a heartbeat after which the process is dead if its advisory lock is free. Null if that server did
  -- not hold the lock for the process at its last heartbeat: behind a pooler, or while the process reconnects.
  dead_after_ms int,

  constraint pod_pkey primary key (id)
) with (fillfactor = 50);

-- The leader's lease: one row that always exists. Acquiring it is an update, so pods that find it held write nothing.
create table leader (
  single boolean not null default true,
  -- Incremented whenever the lease changes hands. Writes in the name of the leader check that their term is the current
  -- one.
  term int not null,
  pod_id uuid,
  leased_until timestamptz,

  constraint leader_pkey primary key (single),
  constraint leader_single_row check (single),
  -- A key, so that acquiring the lease (which changes it) conflicts with FOR KEY SHARE and renewing it does not: a
  -- transaction of the leader holds that lock and knows that no other pod takes over before it commits.
  constraint leader_term_unique unique (term),
  constraint leader_lease_consistent check ((pod_id is null) = (leased_until is null))
) with (fillfactor = 50);

insert into leader (term) values (0);

-- The slots of a queue that the leader assigned to a pod. No foreign key to pod: a pod that leaves during an assignment
-- must not make the assignment fail. Rows of deleted pods are deleted with them.
create table share (
  queue text not null,
  pod_id uuid not null,
  slots smallint not null,
  -- The leader's term when it assigned them.
  term int not null,

  constraint share_pkey primary key (queue, pod_id),
  constraint share_slots_range check (slots >= 0)
) with (fillfactor = 50);

--------------------------------------------------------------------------------------------------------- rate limits

-- The token bucket of a rate limit. Acquiring locks the row, so a token is never spent twice.
create table rate_limit (
  scope text not null,
  -- What code declares, and what an operator set instead. A rate is tokens per second.
  capacity float8 not null,
  rate float8 not null,
  tuned_capacity float8,
  tuned_rate float8,
  -- Tokens at the instant refilled_at. If that is in the future, no tokens are added before it.
  tokens float8 not null,
  refilled_at timestamptz not null,
  -- Tokens that pods reserved and may still use: {pod: [tokens, expiry in epoch milliseconds]}. They count against the
  -- capacity as if they were in the bucket.
  blocks jsonb not null default '{}',
  registered_at timestamptz not null,
  updated_at timestamptz not null,

  constraint rate_limit_pkey primary key (scope),
  constraint rate_limit_range check (
    capacity >= 1 and rate > 0 and tokens >= 0
    and (tuned_capacity is null or tuned_capacity >= 1) and (tuned_rate is null or tuned_rate > 0)
  )
) with (
  -- A few rows, updated by every call of an upstream service: free space for new versions, and early vacuum.
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0
);

------------------------------------------------------------------------------------------------------------- history

-- Nothing here is written per job. A pod counts in memory and writes its counts of the open minute every few seconds.

-- What one pod counted for a queue and kind in a bucket of 1, 10 or 60 minutes. The wider buckets exist because a chart
-- of a week cannot merge ten thousand minutes quickly. Each flush replaces the pod's row with the new totals.
create table job_bucket (
  minutes smallint not null,
  start timestamptz not null,
  queue text not null,
  kind text not null,
  pod_id uuid not null,
  -- Incremented by every flush of the pod: a flush that arrives late does not overwrite a newer one.
  revision int not null,
  enqueued int not null,
  started int not null,
  completed int not null,
  retried int not null,
  dead int not null,
  cancelled int not null,
  rescued int not null,
  -- Latencies in milliseconds: `processing` from start to end of a run, `total` from due to end. The bytes are a
  -- histogram; concatenating those of several rows merges them.
  processing_sum float8 not null,
  processing_max float8 not null,
  processing bytea not null,
  total_sum float8 not null,
  total_max float8 not null,
  total bytea not null,

  -- Width and time first: charts read ranges, and retention deletes from the oldest end.
  constraint job_bucket_pkey primary key (minutes, start, queue, kind, pod_id),
  constraint job_bucket_minutes_known check (minutes in (1, 10, 60))
) with (
  -- Rows of open buckets are updated every few seconds, in place where the page has room.
  fillfactor = 75,
  autovacuum_vacuum_scale_factor = 0.05
);

-- What kept the due jobs of a queue from starting, as the leader saw it every few seconds. Written only when it changes.
create table queue_wait (
  queue text not null,
  since timestamptz not null,
  -- Null while the reason lasts.
  until timestamptz,
  reason text not null,

  constraint queue_wait_pkey primary key (queue, since),
  constraint queue_wait_reason_known check (
    reason in ('paused', 'no_pod', 'cooling_down', 'rate_limited', 'key_busy', 'waiting_for_slot')
  )
);

-- The resources a pod used in a minute.
create table pod_sample (
  minute timestamptz not null,
  pod_id uuid not null,
  -- Processor time over elapsed time since the previous sample; 1 is one busy core.
  cpu float8 not null,
  rss_bytes bigint not null,
  -- Delay of callbacks, in seconds.
  event_loop_p99 float8 not null,
  event_loop_max float8 not null,
  pool_busy int not null,
  pool_idle int not null,
  pool_waiting int not null,
  -- Duration of its SQL statements, in milliseconds; the bytes are a histogram as in job_bucket.
  statement_sum float8 not null,
  statement_max float8 not null,
  statement bytea not null,

  constraint pod_sample_pkey primary key (minute, pod_id)
);

-- The state of the database in a minute, written by the first pod that samples it.
create table database_sample (
  minute timestamptz not null,
  size_bytes bigint not null,
  -- The job table with its indexes.
  job_bytes bigint not null,
  job_live_tuples bigint not null,
  job_dead_tuples bigint not null,
  -- The age of the oldest open transaction: vacuum cannot remove rows that died after it began.
  oldest_transaction_seconds float8 not null,
  connections int not null,

  constraint database_sample_pkey primary key (minute)
);

------------------------------------------------------------------------------------------------------------- uploads

-- Files that wait for a workspace to fetch and acknowledge them. Content is stored in chunks as it streams in, each in
-- its own transaction, so a slow client holds neither a connection nor the vacuum horizon. One short transaction then
-- publishes all files of a request by inserting their rows in `upload`.

-- The content of a file, from its first chunk on. Deleting this row deletes the file and its chunks.
create table upload_content (
  file_id uuid not null,
  -- The deadline of an upload in progress; past it the sweeper deletes the content. Null once published.
  draft_until timestamptz,

  constraint upload_content_pkey primary key (file_id)
);

-- Used by the sweeper: uploads that clients abandoned.
create index upload_content_draft on upload_content (draft_until) where draft_until is not null;

-- One chunk of a file's content.
create table upload_chunk (
  file_id uuid not null,
  n int not null,
  bytes bytea not null,

  constraint upload_chunk_pkey primary key (file_id, n),
  -- A chunk that arrives after the sweeper deleted its draft is refused instead of staying forever.
  constraint upload_chunk_content_fkey foreign key (file_id) references upload_content on delete cascade
);

-- Files are mostly compressed already: compressing again costs time and saves nothing. Guarded like lease.jobs above.
do $$
begin
  alter table upload_chunk alter column bytes set storage external;
exception when feature_not_supported then null;
end
$$;

-- A published file.
create table upload (
  file_id uuid not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  fetched_at timestamptz,
  acked_at timestamptz,
  size_bytes bigint not null,
  -- The length of every chunk except the last, so that a byte range maps to chunk numbers.
  chunk_bytes int not null,
  workspace_id text not null,
  filename text not null,
  mimetype text not null,
  sha256 text not null,

  constraint upload_pkey primary key (file_id),
  constraint upload_content_fkey foreign key (file_id) references upload_content on delete cascade,
  constraint upload_size_range check (size_bytes > 0),
  constraint upload_chunk_bytes_range check (chunk_bytes > 0),
  constraint upload_workspace_length check (length(workspace_id) between 1 and 64),
  constraint upload_filename_length check (length(filename) between 1 and 255),
  constraint upload_sha256_length check (length(sha256) = 64)
) with (
  -- A file is updated when it is fetched and when it is acknowledged: room on the page for both.
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_threshold = 1000
);

-- Files a workspace has to fetch, oldest first. Used by the list of a workspace.
create index upload_waiting on upload (workspace_id, created_at) where acked_at is null;

-- Used by the sweeper: files past their expiry, and files acknowledged long enough ago.
create index upload_expiry on upload (expires_at) where acked_at is null;
create index upload_acked on upload (acked_at) where acked_at is not null;

-- Stored bytes of a workspace, in any state. Used by the quota check, from the index alone.
create index upload_kept on upload (workspace_id) include (size_bytes);

-- A workspace that ever received a file. Publishing locks the row, so two requests cannot both use the last of the
-- quota.
create table upload_workspace (
  workspace_id text not null,

  constraint upload_workspace_pkey primary key (workspace_id)
);

------------------------------------------------------------------------------------------------------------- gateway

-- A Telegram user who is signed in, for all bots.
create table bot_session (
  user_id bigint not null,
  started_at timestamptz not null,
  expires_at timestamptz not null,

  constraint bot_session_pkey primary key (user_id)
);

-- Used by the gateway sweeper: expired sign-ins.
create index bot_session_expiry on bot_session (expires_at);

-- Wrong codes of a user. An attempt is counted before its code is checked, and forgiven if the code is right.
create table bot_guess (
  user_id bigint not null,
  failures int not null,
  since timestamptz not null,
  locked_until timestamptz,

  constraint bot_guess_pkey primary key (user_id),
  constraint bot_guess_failures_range check (failures > 0)
);

-- The message to a user about a dead job. Stored before it is sent, because sending cannot be undone and must not be
-- repeated. No foreign key: the job may be purged first.
create table bot_dead_letter (
  job_id uuid not null,
  chat_id bigint not null,
  intended_at timestamptz not null,
  settled_at timestamptz,
  bot text not null,
  state text not null,

  constraint bot_dead_letter_pkey primary key (job_id),
  constraint bot_dead_letter_state_known check (state in ('intended', 'sent', 'refused', 'unknown', 'withdrawn')),
  constraint bot_dead_letter_end_consistent check ((state = 'intended') = (settled_at is null))
);

-- Used by the gateway sweeper: messages past their retention.
create index bot_dead_letter_intended on bot_dead_letter (intended_at);

-------------------------------------------------------------------------------------------------------------- access

-- An access token of a workspace. Tokens are 256 random bits, so a plain SHA-256 is safe; slow hashes are for
-- passwords.
create table workspace_token (
  id uuid not null,
  workspace_id text not null,
  -- The first characters of the token: enough to recognise it in a list and to find its row.
  prefix text not null,
  hash bytea not null,
  label text not null,
  created_at timestamptz not null,

  constraint workspace_token_pkey primary key (id),
  constraint workspace_token_workspace_length check (length(workspace_id) between 1 and 64),
  constraint workspace_token_hash_length check (length(hash) = 32),
  constraint workspace_token_label_length check (length(label) <= 100)
);

-- Used by authentication, to find the token of a request, and by the list of a workspace's tokens.
create index workspace_token_bearer on workspace_token (workspace_id, prefix);

-- A login to Mission Control. The secret exists only in the visitor's cookie. The bond ties the session to the token it
-- was opened with: if that token changes, the session ends. It can be checked only together with the secret.
create table session (
  secret_hash bytea not null,
  role text not null,
  bond bytea not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,

  constraint session_pkey primary key (secret_hash),
  constraint session_role_known check (role in ('admin', 'viewer'))
);

-- Used by cleanup: expired logins.
create index session_expiry on session (expires_at);

-- A request with an Idempotency-Key, and its response once there is one.
create table idempotency (
  key_hash bytea not null,
  content_hash bytea not null,
  created_at timestamptz not null,
  answer jsonb,

  constraint idempotency_pkey primary key (key_hash)
);

-- Used by cleanup: keys past their retention.
create index idempotency_age on idempotency (created_at);
