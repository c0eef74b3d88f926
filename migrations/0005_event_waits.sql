-- Oldest code: 0.1.0
--
-- Waits for events belong to the job of their execution: event_wait.job. Changes publish_events() and wait_for_event().

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
