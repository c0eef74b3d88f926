-- Oldest code: 0.1.0
--
-- Events with fan-out: event, subscription, event_wait, and the SQL functions publish_events(), publish(), wait_for_event(),
-- deliver_events(), fill_subscription(), match_of(), first_id(), event_job() and check_value().

-- A published event, until retention deletes it. Its jobs are found by their ids, see event_job().
create table event (
  -- UUID version 7: sorts by the time of publication.
  id uuid not null,
  published_at timestamptz not null,
  name text not null,
  -- The key of its jobs.
  key text,
  -- The id that the publisher chose. A second event of this name with this id is not stored.
  own_id text,
  -- Digest of the subject of its jobs, see subject().
  subject text,
  data jsonb not null,
  -- Jobs that an operator made by replaying the event to a subscriber, oldest first.
  replays uuid[],
  -- The subscribers that were to get earlier events when this one was published, and got it from its publisher.
  delivered text[],

  constraint event_pkey primary key (id)
);

-- Enforced by every publish with an id.
create unique index event_own_id on event (name, own_id) where own_id is not null;

-- Used by erasure.
create index event_subject on event (subject) where subject is not null;

-- Events of one name, by time. Used by the list, by waits for events that were published before the wait was stored, and
-- by subscribers that start in the past.
create index event_name on event (name, id);

-- A subscriber: every event of this name makes a job of this kind. Registered by the pods that serve the kind.
create table subscription (
  event text not null,
  kind text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- Earlier events that are still to be delivered: those published at this instant or later. Null if there are none.
  fill_from timestamptz,
  -- Earlier events are delivered when all transactions before this one have ended: those that did not see this row, see
  -- wait_for_event().
  fill_after xid8,
  -- How far earlier events were delivered.
  filled_to uuid,
  -- Only events with these values at these paths make a job, see event_wait. Null: all.
  paths jsonb,
  match jsonb,

  constraint subscription_pkey primary key (event, kind)
);

-- A wait of a workflow execution for an event. The wait itself is a signal of this name, which publish_events() sends.
-- The row says which events fit; it stays after the wait has ended, so that no other wait of the execution takes the same
-- event. Rows of ended executions are deleted by cleanup.
create table event_wait (
  execution text not null,
  -- The job of the execution: a later execution with the same id has its own waits.
  job uuid not null,
  -- The name of the signal.
  name text not null,
  -- Events published at this instant or later count.
  since timestamptz not null,
  -- The event that ended the wait.
  taken uuid,
  -- Until all transactions before this one have ended, an event may appear whose publisher did not see this row. Null before the
  -- first search, 0 after a search of which all these publishers' events were part.
  unsettled xid8,
  event text not null,
  -- The paths that are compared, each as an array of names, and their values in the same order.
  paths jsonb not null,
  match jsonb not null,

  constraint event_wait_pkey primary key (execution, name)
);

-- Open waits of an event by what they compare. Used by publish_events(), which reads one entry for each list of paths and
-- those that match.
create index event_wait_open on event_wait (event, paths, match) where taken is null;

-- The job of an event for a subscriber: the event's id with the last six bytes replaced by a digest of both. So the primary key
-- of the job ensures that there is one. The first ten bytes have the time and the cell, see Ids and CellTag.
create function event_job(event uuid, kind text) returns uuid
language sql immutable parallel safe
begin atomic
  select encode(overlay(uuid_send($1) placing substring(decode(md5($1::text || ' ' || $2), 'hex') from 1 for 6) from 11 for 6), 'hex')::uuid;
end;

-- The smallest id of this instant.
create function first_id(at timestamptz) returns uuid
language sql immutable parallel safe
begin atomic
  select encode(substring(int8send(floor(extract(epoch from $1) * 1000)::bigint) from 3) || '\x00000000000000000000'::bytea, 'hex')::uuid;
end;

-- The values of these paths in the data of an event. A path that is missing has the value null.
create function match_of(data jsonb, paths jsonb) returns jsonb
language sql immutable parallel safe
begin atomic
  select coalesce((
    select jsonb_agg($1 #> array(select jsonb_array_elements_text(p.path)) order by p.n)
    from jsonb_array_elements($2) with ordinality as p(path, n)
  ), '[]');
end;

-- The first event before this one that ends a wait. Events count from the start of the execution, and end one of its waits.
create function earliest_event(wait event_wait, before uuid) returns setof event
language sql stable
begin atomic
  select e.* from event e
  -- As a range with two ends it would be estimated as so short that the plan reads the events of all names in it.
  where e.name = $1.event and e.id >= first_id($1.since) and (e.id < $2) is not false
    and match_of(e.data, $1.paths) = $1.match
    and not exists (select from event_wait other where other.execution = $1.execution and other.job = $1.job
      and other.event = $1.event and other.taken = e.id)
  order by e.id limit 1;
end;

-- Stores a job of each subscriber for these events, or of one subscriber, unless it exists. Jobs ignore the depth cap of their
-- queue: a publisher does not depend on its subscribers. With `replay`, the id of another job of one event for one subscriber,
-- whether it matches or not.
create function deliver_events(ids uuid[], only_ text, now_ timestamptz, replay uuid default null)
returns table (queue text, kind text, event uuid)
language plpgsql
set search_path from current
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
    with published as materialized (
      select e.id, e.name, e.key, e.data, jsonb_build_object('event', jsonb_strip_nulls(jsonb_build_object('id', e.id, 'name', e.name,
        'publishedAt', to_char(e.published_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'key', e.key))) as meta
      from event e where e.id = any(ids)
    ), subscriber as materialized (
      select s.event, s.paths, s.match, k.name as kind, k.version, k.priority, k.max_attempts,
        coalesce(case when k.routed then route_of(k.name) end, k.queue) as queue,
        case when k.on_dead ? 'routed' then (k.on_dead - 'routed')
          || jsonb_build_object('queue', coalesce(route_of(k.on_dead->>'kind'), k.on_dead->>'queue')) else k.on_dead end as on_dead
      from subscription s join kind k on k.name = s.kind
      where s.event in (select p.name from published p) and (only_ is null or s.kind = only_)
    )
    insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, key, on_dead, meta, created_at, updated_at)
    select coalesce(replay, event_job(e.id, s.kind)), s.queue, s.kind, s.version, e.data, s.priority, coalesce(follows.run_at, now_), s.max_attempts,
      e.key, s.on_dead, e.meta, coalesce(follows.created_at, now_), now_
    from published e join subscriber s on s.event = e.name and (s.paths is null or replay is not null or match_of(e.data, s.paths) = s.match)
    left join lateral behind_key(s.queue, e.key, s.priority, event_job(e.id, s.kind), now_, now_) follows on e.key is not null
    order by e.id
    on conflict do nothing
    returning queue, kind, (meta->'event'->>'id')::uuid;
end
$$;

-- Stores the events of one request and a job for each subscriber, and ends the waits of executions that match. The program
-- has validated the events. `request` holds `now` in epoch milliseconds; `events` with id, name, key, own_id, subject and data;
-- `lock_timeout`, the wait for an id that another transaction publishes; and `notify`, whether to notify pods.
-- Returns {events: [{id, repeated, jobs}], jobs: [{queue, kind, count}], woken: [queue]}.
--
-- Three statements, each with a newer snapshot in a READ COMMITTED transaction. The first gives the transaction its number. A
-- subscription or a wait that the later ones do not see was committed after that, so its owner knows by the number
-- that this transaction may publish more events for it, see fill_after and unsettled.
create function publish_events(request jsonb) returns jsonb
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
    insert into event (id, published_at, name, key, own_id, subject, data)
    select g.id, now_, g.name, g.key, g.own_id, g.subject, coalesce(g.data, 'null')
    from rows from (jsonb_to_recordset(request->'events') as (id uuid, name text, key text, own_id text, subject text, data jsonb))
      with ordinality as g(id, name, key, own_id, subject, data, place)
    order by g.own_id collate "C" nulls first, g.name collate "C", g.place
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
      select w.execution, w.name, coalesce(earlier.id, e.id) as id, coalesce(earlier.data, e.data) as data
      from shape s join event e on e.id = any(fresh) and e.name = s.event
      join event_wait w on w.event = s.event and w.paths = s.paths and w.match = match_of(e.data, s.paths)
        and w.taken is null
      -- The wait may not have searched yet.
      left join lateral earliest_event(w, e.id) earlier on w.unsettled is distinct from '0'
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

-- Refuses a value that the HTTP API would refuse too: of an event or of a signal.
create function check_value(field text, value jsonb) returns void
language plpgsql
set search_path from current
as $$
declare
  value_text text := check_value.value::text;
  lost numeric;
begin
  if octet_length(value_text) > 65536 then
    raise exception '% is larger than 65536 bytes as JSON', field using errcode = 'program_limit_exceeded',
      hint = 'Pass the key under which you store it.';
  end if;
  -- The cheap tests on the text come first, see enqueue().
  if length(value_text) - length(translate(value_text, '[{', '')) > 1000 then
    if jsonb_path_exists(check_value.value, 'strict $.**{1000} ? (@.type() == "array" || @.type() == "object")') then
      raise exception '% must not be nested more than 1000 levels deep', field using errcode = 'program_limit_exceeded';
    end if;
  end if;
  if value_text ~ '[0-9.]{16}' then
    lost := lost_number(check_value.value);
    if lost is not null then
      raise exception '% holds %, which a 64-bit float cannot hold', field, left(lost::text, 40)
        using errcode = 'numeric_value_out_of_range', hint = 'Send the number as a string.';
    end if;
  end if;
end
$$;

-- As in 0001_baseline.sql, except that values are checked like those of events.
create or replace function signal(execution text, name text, value jsonb default 'null', id text default null) returns text
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
  perform check_value('value', signal.value);
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

-- Publishes an event in the caller's transaction and returns its id; for triggers and for programs without the client. If an event
-- with this name and `id` exists, it returns the id of that one and stores nothing. `meta` is for the subject, as in enqueue(): an
-- event has no other meta. Pods are notified when the transaction commits.
create function publish(name text, data jsonb, key text default null, id text default null, meta jsonb default null) returns uuid
language plpgsql
set search_path from current
as $$
declare
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
  perform check_value('data', publish.data);
  if length(publish.key) not between 1 and 512 then
    raise exception 'key must be 1 to 512 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if length(publish.id) not between 1 and 256 then
    raise exception 'id must be 1 to 256 characters long' using errcode = 'invalid_parameter_value';
  end if;
  if publish.meta <> subject_meta(publish.meta->>'subjectDigest') then
    raise exception 'meta of an event can only have a subject' using errcode = 'invalid_parameter_value',
      hint = 'Pass meta => subject(''customer:42''), and all else in data.';
  end if;
  return publish_events(jsonb_build_object('now', now_ms, 'notify', true, 'events', jsonb_build_array(jsonb_build_object(
    'id', new_id, 'name', publish.name, 'data', publish.data, 'key', publish.key, 'own_id', publish.id,
    'subject', publish.meta->>'subjectDigest'))))
    ->'events'->0->>'id';
end
$$;

-- Stores a wait of an execution, or finds the event that ended it. `request` holds execution, job, name, event, paths
-- and match. Events count from the start of the execution. Returns {data} if an event has been published, else {settled}: whether none can appear any more that did not
-- see the wait. Call it again until it is settled; the first call only stores the wait, so that the next sees everything
-- that was published before the wait was visible. A wait that a publisher has locked is not settled.
create function wait_for_event(request jsonb) returns jsonb
language plpgsql
set search_path from current
as $$
declare
  execution_ text := request->>'execution';
  job_ uuid := request->>'job';
  name_ text := request->>'name';
  ends boolean := request ? 'ends';
  wait event_wait;
  settled boolean;
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
    -- The number of this transaction, which begins after the row was committed. The upper bound of a snapshot may be lower than the
    -- numbers of open transactions that did not see the row: it follows the last one that has ended.
    wait.unsettled := pg_current_xact_id();
    update event_wait w set unsettled = wait.unsettled where w.execution = execution_ and w.name = name_;
  end if;
  -- Before the search, which must see the events of all transactions that count as ended.
  settled := pg_snapshot_xmin(pg_current_snapshot()) >= wait.unsettled;
  select e.id, e.data into found_ from earliest_event(wait, null) e;
  if found then
    update event_wait w set taken = found_.id where w.execution = execution_ and w.name = name_;
    return jsonb_build_object('data', found_.data);
  end if;
  if ends then
    delete from event_wait w where w.execution = execution_ and w.name = name_;
    return jsonb_build_object('settled', true);
  end if;
  if settled then
    update event_wait w set unsettled = '0' where w.execution = execution_ and w.name = name_;
  end if;
  return jsonb_build_object('settled', settled);
end
$$;

-- Delivers earlier events to a subscriber that starts in the past: up to `most` of them. Returns {settled, done, jobs} with the
-- queues of the jobs. `settled` is false while transactions run that did not see the subscription, or while another session has
-- locked it; then nothing happens.
create function fill_subscription(event_ text, kind_ text, now_ms float8, most int) returns jsonb
language plpgsql
set search_path from current
as $$
declare
  now_ timestamptz := to_timestamp(now_ms / 1000);
  s subscription;
  jobs jsonb;
  ids uuid[];
  is_done boolean;
begin
  select * into s from subscription where event = event_ and kind = kind_ and fill_from is not null for update skip locked;
  if not found then
    -- Another session may have locked the row.
    is_done := not exists (select from subscription where event = event_ and kind = kind_ and fill_from is not null);
    return jsonb_build_object('settled', is_done, 'done', is_done, 'jobs', '[]'::jsonb);
  end if;
  if s.fill_after is null then
    update subscription set fill_after = pg_current_xact_id() where event = event_ and kind = kind_;
    return jsonb_build_object('settled', false, 'done', false, 'jobs', '[]'::jsonb);
  end if;
  if pg_snapshot_xmin(pg_current_snapshot()) < s.fill_after then
    return jsonb_build_object('settled', false, 'done', false, 'jobs', '[]'::jsonb);
  end if;
  select array_agg(e.id) into ids from (
    select e.id from event e
    where e.name = event_ and e.id > coalesce(s.filled_to, first_id(s.fill_from))
    order by e.id limit most
  ) e;
  select coalesce(jsonb_agg(jsonb_build_object('queue', c.queue, 'kind', c.kind, 'count', c.count)), '[]') into jobs
  from (select d.queue, d.kind, count(*) from deliver_events(ids, kind_, now_) d group by 1, 2) c;
  is_done := coalesce(cardinality(ids), 0) < most;
  update subscription set filled_to = coalesce(ids[cardinality(ids)], filled_to), fill_from = case when not is_done then fill_from end
  where event = event_ and kind = kind_;
  return jsonb_build_object('settled', true, 'done', is_done, 'jobs', jobs);
end
$$;
