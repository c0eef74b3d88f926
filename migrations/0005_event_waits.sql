-- Oldest code: 0.1.0
--
-- Waits for events belong to the job of their execution: event_wait.job. Changes publish_events(), wait_for_event(),
-- deliver_events() and publish().

-- The job of the execution: a later execution with the same id has its own waits.
alter table event_wait add column job uuid;

update event_wait w set job = j.id from job j where j.dedupe_key = w.execution and j.dedupe_scope = 'retained';

-- Stores the events of one request and a job for each subscriber, and ends the waits of executions that match. The program
-- has validated the events. `request` holds `now` in epoch milliseconds; `events` with id, name, key, own_id and data;
-- `lock_timeout`, the wait for an id that another transaction publishes; and `notify`, whether to notify pods.
-- Returns {events: [{id, repeated, jobs}], jobs: [{queue, kind, count}], woken: [queue]}.
--
-- Three statements, each with a newer snapshot in a READ COMMITTED transaction. The first gives the transaction its number. A
-- subscription or a wait that the later ones do not see was committed after that, so its owner knows by the number
-- that this transaction may publish more events for it, see fill_after and unsettled.
create or replace function publish_events(request jsonb) returns jsonb
language plpgsql
set search_path from current
set plan_cache_mode = force_generic_plan
as $$
declare
  now_ timestamptz := to_timestamp((request->>'now')::float8 / 1000);
  fresh uuid[];
  names text[];
  stored_jobs jsonb;
  per_event jsonb;
  answers jsonb;
  waits record;
  woken_queues text[];
begin
  if request ? 'lock_timeout' then
    perform set_config('lock_timeout', request->>'lock_timeout', true);
  end if;
  -- All transactions take ids in the same order, to avoid deadlocks.
  with stored as (
    insert into event (id, published_at, name, key, own_id, data)
    select g.id, now_, g.name, g.key, g.own_id, coalesce(g.data, 'null')
    from jsonb_to_recordset(request->'events') as g(id uuid, name text, key text, own_id text, data jsonb)
    order by g.own_id collate "C" nulls first, g.name collate "C"
    on conflict do nothing
    returning id, name
  )
  select array_agg(s.id), array_agg(distinct s.name) into fresh, names from stored s;

  with stored as materialized (
    select * from deliver_events(fresh, null, now_)
  )
  select (select jsonb_agg(jsonb_build_object('queue', c.queue, 'kind', c.kind, 'count', c.count))
      from (select s.queue, s.kind, count(*) from stored s group by 1, 2) c),
    (select jsonb_object_agg(c.event, c.count) from (select s.event, count(*) from stored s group by 1) c)
  into stored_jobs, per_event;

  if exists (select from event_wait w where w.event = any(names) and w.taken is null) then
    with recursive shape(event, paths) as (
      select n.event, (select w.paths from event_wait w where w.event = n.event and w.taken is null order by w.paths limit 1)
      from unnest(names) as n(event)
      union all
      select s.event, (select w.paths from event_wait w
        where w.event = s.event and w.taken is null and w.paths > s.paths order by w.paths limit 1)
      from shape s where s.paths is not null
    ), found as (
      select w.execution, w.name, e.id, e.data
      from shape s join event e on e.id = any(fresh) and e.name = s.event
      join event_wait w on w.event = s.event and w.paths = s.paths and w.match = match_of(e.data, s.paths)
        and w.taken is null
      where s.paths is not null
        and exists (select from job j where j.id = w.job and j.finished_at is null)
      order by w.execution, w.name, e.id for update of w
    ), firsts as (
      select distinct on (f.execution, f.name) f.* from found f order by f.execution, f.name, f.id
    ), took as (
      update event_wait w set taken = f.id from firsts f where w.execution = f.execution and w.name = f.name
    )
    select array_agg(f.execution order by f.execution, f.name) as executions, array_agg(f.name order by f.execution, f.name) as names,
      jsonb_agg(f.data order by f.execution, f.name) as exits
    into waits from firsts f;
    if waits.executions is not null then
      select array_agg(distinct d.queue) into woken_queues
      from complete_deferred(waits.executions, waits.names, array_fill(null::text, array[cardinality(waits.executions)]),
        waits.exits, (request->>'now')::float8) d
      where d.queue is not null;
    end if;
  end if;

  -- An event that was published before has the id of the first.
  select jsonb_agg(jsonb_build_object('id', coalesce(own.id, g.id), 'repeated', fresh is null or g.id <> all(fresh),
    'jobs', coalesce((per_event->>(g.id::text))::int, 0)) order by g.place)
  into answers
  from rows from (jsonb_to_recordset(request->'events') as (id uuid, name text, own_id text)) with ordinality as g(id, name, own_id, place)
  left join event own on own.name = g.name and own.own_id = g.own_id;

  if request ? 'notify' then
    perform pg_notify(current_schema || '_work', n.queue) from (
      select j->>'queue' as queue from jsonb_array_elements(stored_jobs) as j union select unnest(woken_queues)
    ) n;
  end if;
  return jsonb_build_object('events', answers, 'jobs', coalesce(stored_jobs, '[]'), 'woken', coalesce(to_jsonb(woken_queues), '[]'));
end
$$;

-- Stores a wait of an execution, or finds the event that ended it. `request` holds execution, job, name, event, paths
-- and match. Events count from the start of the execution. Returns {data} if an event has been published, else {settled}: whether none can appear any more that did not
-- see the wait. Call it again until it is settled; the first call only stores the wait, so that the next sees everything
-- that was published before the wait was visible. A wait that a publisher has locked is not settled. With `ends`, the wait has timed
-- out: it is deleted unless it has an event, so that a later wait of the execution gets the events that follow.
create or replace function wait_for_event(request jsonb) returns jsonb
language plpgsql
set search_path from current
as $$
declare
  execution_ text := request->>'execution';
  job_ uuid := request->>'job';
  name_ text := request->>'name';
  ends boolean := request ? 'ends';
  wait event_wait;
  found_ record;
begin
  insert into event_wait (execution, name, since, event, paths, match, job)
  select execution_, name_, j.created_at, request->>'event', request->'paths', request->'match', j.id
  from job j where j.id = job_
  on conflict do nothing;
  if found and not ends then
    return jsonb_build_object('settled', false);
  end if;
  if ends then
    -- A publisher that has locked the wait gives it its event.
    select * into wait from event_wait w where w.execution = execution_ and w.name = name_ for update;
  else
    select * into wait from event_wait w where w.execution = execution_ and w.name = name_ for update skip locked;
  end if;
  if not found then
    return jsonb_build_object('settled', ends);
  end if;
  -- An earlier execution with this id, or earlier code, has waited for something else.
  if wait.job is distinct from job_
    or wait.taken is null and (wait.paths, wait.match) is distinct from (request->'paths', request->'match') then
    update event_wait w set job = job_, paths = request->'paths', match = request->'match', taken = null, unsettled = null,
      since = (select j.created_at from job j where j.id = job_)
    where w.execution = execution_ and w.name = name_;
    return jsonb_build_object('settled', false);
  end if;
  if wait.taken is not null then
    select e.data into found_ from event e where e.id = wait.taken;
    if found then
      return jsonb_build_object('data', found_.data);
    end if;
  end if;
  if wait.unsettled is null then
    wait.unsettled := pg_snapshot_xmax(pg_current_snapshot());
    update event_wait w set unsettled = wait.unsettled where w.execution = execution_ and w.name = name_;
  end if;
  select e.id, e.data into found_ from event e
  where e.name = wait.event and match_of(e.data, wait.paths) = wait.match
    and e.id >= first_id(wait.since)
    and not exists (select from event_wait other where other.execution = execution_ and other.job = job_
      and other.event = wait.event and other.taken = e.id)
  order by e.id limit 1;
  if found then
    update event_wait w set taken = found_.id where w.execution = execution_ and w.name = name_;
    return jsonb_build_object('data', found_.data);
  end if;
  if ends then
    delete from event_wait w where w.execution = execution_ and w.name = name_;
    return jsonb_build_object('settled', true);
  end if;
  return jsonb_build_object('settled', pg_snapshot_xmin(pg_current_snapshot()) >= wait.unsettled);
end
$$;

-- Stores a job of each subscriber for these events, or of one subscriber, unless it exists. Jobs ignore the depth cap of their
-- queue: a publisher does not depend on its subscribers. With `replay`, the id of another job of one event for one subscriber,
-- whether it matches or not. Events of subscribers with windows wait for close_windows().
--
-- The version of a job says its form: 1 is the data of one event, 2 a list. A process that knows only the first leaves
-- jobs of the second to others.
create or replace function deliver_events(ids uuid[], only_ text, now_ timestamptz, replay uuid default null)
returns table (queue text, kind text, event uuid)
language plpgsql
set search_path from current
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  -- Read once: an event of a subscriber that gets or loses its window meanwhile is neither in both forms nor in none.
  subscribers subscription[];
begin
  -- An earlier declaration of the subscriber may have delivered the event, in the other form.
  if only_ is not null and replay is null then
    ids := array(select i.id from unnest(ids) as i(id)
      where not exists (select from windowed_event w where w.event = i.id and w.kind = only_)
        and not exists (select from job j where j.id = event_job(i.id, only_)));
  end if;
  subscribers := array(select s from subscription s
    where s.event in (select e.name from event e where e.id = any(ids)) and (only_ is null or s.kind = only_));
  -- Not part of the next statement, for which every publisher would then need the right to insert here.
  if replay is null and exists (select from unnest(subscribers) s where s.debounce is not null) then
    insert into windowed_event (event, at, bucket, kind, name)
    select e.id, e.published_at, md5(jsonb_build_array(e.name, s.kind, e.key, match_of(e.data, s.by_paths))::text)::uuid, s.kind, e.name
    from event e join unnest(subscribers) s on s.event = e.name
    where e.id = any(ids) and s.debounce is not null and (s.paths is null or match_of(e.data, s.paths) = s.match)
    on conflict do nothing;
  end if;
  return query
    with published as materialized (
      select e.id, e.name, e.key, e.data, jsonb_build_object('event', jsonb_strip_nulls(jsonb_build_object('id', e.id, 'name', e.name,
        'publishedAt', to_char(e.published_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'key', e.key))) as meta
      from event e where e.id = any(ids)
    ), subscriber as materialized (
      select s.event, s.kind, s.paths, s.match, s.debounce is not null as is_list, k.*
      from unnest(subscribers) s, kind_defaults(s.kind) k
      where s.debounce is null or replay is not null
    )
    insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, key, on_dead, meta, created_at, updated_at)
    select coalesce(replay, event_job(e.id, s.kind)), s.queue, s.kind, case when s.is_list then 2 else 1 end,
      case when s.is_list then jsonb_build_array(e.data) else e.data end, s.priority, coalesce(follows.run_at, now_), s.max_attempts,
      e.key, s.on_dead, case when s.is_list then list_meta(e.name, e.key, jsonb_build_array((e.meta->'event') - '{name,key}'::text[])) else e.meta end,
      coalesce(follows.created_at, now_), now_
    from published e join subscriber s on s.event = e.name and (s.paths is null or replay is not null or match_of(e.data, s.paths) = s.match)
    left join lateral behind_key(s.queue, e.key, s.priority, event_job(e.id, s.kind), now_, now_) follows on e.key is not null
    order by e.id
    on conflict do nothing
    returning queue, kind, (meta->'event'->>'id')::uuid;
end
$$;

-- Publishes an event in the caller's transaction and returns its id; for triggers and for programs without the client. If an event
-- with this name and `id` exists, it returns the id of that one and stores nothing. Pods are notified when the transaction commits.
create or replace function publish(name text, data jsonb, key text default null, id text default null) returns uuid
language plpgsql
set search_path from current
as $$
declare
  data_text text := publish.data::text;
  lost numeric;
  now_ms constant float8 := floor(extract(epoch from clock_timestamp()) * 1000);
  new_id uuid := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send(now_ms::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid;
begin
  if publish.name is null or length(publish.name) not between 1 and 128 then
    raise exception 'name must be 1 to 128 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if publish.data is null then
    raise exception 'data must not be null' using errcode = 'null_value_not_allowed';
  end if;
  if octet_length(data_text) > 65536 then
    raise exception 'data is larger than 65536 bytes as JSON' using errcode = 'program_limit_exceeded',
      hint = 'Publish the key under which you store it.';
  end if;
  -- The cheap test on the text comes first, see enqueue().
  if length(data_text) - length(translate(data_text, '[{', '')) > 1000 then
    if jsonb_path_exists(publish.data, 'strict $.**{1000} ? (@.type() == "array" || @.type() == "object")') then
      raise exception 'data must not be nested more than 1000 levels deep' using errcode = 'program_limit_exceeded';
    end if;
  end if;
  if data_text ~ '[0-9.]{16}' then
    lost := lost_number(publish.data);
    if lost is not null then
      raise exception 'data holds %, which a 64-bit float cannot hold', left(lost::text, 40)
        using errcode = 'numeric_value_out_of_range', hint = 'Send the number as a string.';
    end if;
  end if;
  if length(publish.key) not between 1 and 512 then
    raise exception 'key must be 1 to 512 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if length(publish.id) not between 1 and 256 then
    raise exception 'id must be 1 to 256 characters long' using errcode = 'invalid_parameter_value';
  end if;
  return publish_events(jsonb_build_object('now', now_ms, 'notify', true, 'events', jsonb_build_array(jsonb_build_object(
    'id', new_id, 'name', publish.name, 'data', publish.data, 'key', publish.key, 'own_id', publish.id))))
    ->'events'->0->>'id';
end
$$;
