-- Oldest code: 0.1.0
--
-- Subjects: the person or customer whose data a thing holds, for erasure. Every table has a SHA-256 digest of the subject in
-- hexadecimal, so that no table has its text. A job has it in `meta`, which every way to store, move and restore a job carries.
-- Jobs without a subject have no entry in the index, and nothing is written for them.

-- Jobs of a subject that have not been erased. Erasure replaces `meta` by {"subjectErasedAt": time}. Otherwise `meta` changes only
-- when a job of another subject replaces the payload, so that claims stay free of index writes.
create index job_subject on job ((meta->>'subjectDigest')) where meta ? 'subjectDigest';

-- Used by erasure: what was kept of changed jobs, and of jobs of a subject that may no longer exist.
create index job_undo_job on job_undo (job_id);
create index job_undo_subject on job_undo ((before->'meta'->>'subjectDigest')) where before->'meta' ? 'subjectDigest';

alter table batch add column subject text;
alter table schedule add column subject text;
alter table upload add column subject text;
-- The job may be deleted before its follow-up is made.
alter table follow_up_due add column subject text;

-- Used by erasure. Schedules are few.
create index batch_subject on batch (subject) where subject is not null;
create index upload_subject on upload (subject) where subject is not null;
create index follow_up_due_subject on follow_up_due (subject) where subject is not null;

-- What the `meta` of a job says about its subject, which the caller names: meta => subject('customer:42') in enqueue() and publish().
-- Empty without one.
create function subject(name text) returns jsonb
language plpgsql immutable parallel safe
set search_path from current
as $$
begin
  -- Erasure takes no others. It counts characters outside the Basic Multilingual Plane, such as emoji, as two.
  if length(regexp_replace(subject.name, '[\U00010000-\U0010FFFF]', 'xx', 'g')) not between 1 and 512 then
    raise exception 'subject must be 1 to 512 characters long' using errcode = 'invalid_parameter_value';
  end if;
  return subject_meta(encode(sha256(convert_to(subject.name, 'UTF8')), 'hex'));
end
$$;

-- The same for a digest.
create function subject_meta(digest text) returns jsonb
language sql immutable parallel safe
begin atomic
  select case when $1 is null then '{}'::jsonb else jsonb_build_object('subjectDigest', $1) end;
end;

-- As in 0001_baseline.sql, except that the payload of another job brings its subject, or that it has none, and that a job that
-- `fleet move` holds in the queue `queue>from>to` is the same job, that a workflow execution is not replaced, and that a job of
-- enqueue(), whose queue may be full, must not look erased.
create or replace function store_job(fresh job, replaces boolean, capped boolean, out id uuid, out outcome text)
language plpgsql
set search_path from current
as $$
#variable_conflict use_column
declare
  holder record;
  cap int;
begin
  if capped and fresh.meta ? 'subjectErasedAt' then
    raise exception 'meta must not have the field subjectErasedAt, which only an erasure sets'
      using errcode = 'invalid_parameter_value';
  end if;
  -- A payload of JSON null arrives as null from enqueue_jobs().
  fresh.payload := coalesce(fresh.payload, 'null');
  -- The holder of the dedupe key may release it, or another job may take it, between the lookup and the insert.
  for try in 1..10 loop
    select j.id, (j.kind, j.version, split_part(j.queue, '>', 1), j.payload)
      = (fresh.kind, fresh.version, fresh.queue, fresh.payload) as is_same
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
          meta = case when j.meta ? 'subjectDigest' or fresh.meta ? 'subjectDigest'
            then nullif(coalesce(j.meta, '{}') - 'subjectDigest' || subject_meta(fresh.meta->>'subjectDigest'), '{}') else j.meta end,
          updated_at = fresh.created_at
        where j.id = holder.id and j.status = 'pending' and j.woken is null;
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

-- As in 0001_baseline.sql, except for the jobs that `fleet move` holds.
create or replace function enqueue_jobs(request jsonb)
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
      select j.id, (j.kind, j.version, split_part(j.queue, '>', 1), j.payload)
        = (g.kind, g.version, g.queue, coalesce(g.payload, 'null')) as is_same
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
