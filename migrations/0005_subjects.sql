-- Oldest code: 0.1.0
--
-- Subjects: the person or customer whose data a thing holds, for erasure. Every table has a SHA-256 digest of the subject in
-- hexadecimal, so that no table has its text. A job has it in `meta`, which every way to store, move and restore a job carries.
-- Jobs without a subject have no entry in the index, and nothing is written for them.

-- Jobs of a subject that have not been erased. Erasure replaces `meta` by {"subjectErasedAt": time}. `meta` never changes otherwise, so
-- that claims stay free of index writes.
create index job_subject on job ((meta->>'subjectDigest')) where meta ? 'subjectDigest';

-- Used by erasure: what was kept of changed jobs, and of deleted jobs of a subject.
create index job_undo_job on job_undo (job_id);
create index job_undo_subject on job_undo ((before->'meta'->>'subjectDigest')) where before->'meta' ? 'subjectDigest';

alter table event add column subject text;
alter table batch add column subject text;
alter table schedule add column subject text;
alter table upload add column subject text;

-- Used by erasure. Schedules are few.
create index event_subject on event (subject) where subject is not null;
create index batch_subject on batch (subject) where subject is not null;
create index upload_subject on upload (subject) where subject is not null;

-- What the `meta` of a job says about its subject, which the caller names: meta => subject('customer:42') in enqueue().
create function subject(name text) returns jsonb
language sql immutable strict parallel safe
begin atomic
  select jsonb_build_object('subjectDigest', encode(sha256(convert_to($1, 'UTF8')), 'hex'));
end;

-- The same for a digest. Empty without one.
create function subject_meta(digest text) returns jsonb
language sql immutable parallel safe
begin atomic
  select case when $1 is null then '{}'::jsonb else jsonb_build_object('subjectDigest', $1) end;
end;

-- Stores the events of one request and a job for each subscriber, and ends the waits of executions that match. The program
-- has validated the events. `request` holds `now` in epoch milliseconds; `events` with id, name, key, own_id, subject and data;
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
    insert into event (id, published_at, name, key, own_id, subject, data)
    select g.id, now_, g.name, g.key, g.own_id, g.subject, coalesce(g.data, 'null')
    from jsonb_to_recordset(request->'events') as g(id uuid, name text, key text, own_id text, subject text, data jsonb)
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

-- Stores a job of each subscriber for these events, or of one subscriber, unless it exists. Jobs ignore the depth cap of their
-- queue: a publisher does not depend on its subscribers. With `replay`, the id of another job of one event for one subscriber,
-- whether it matches or not. Events of subscribers with windows wait for close_windows(); those of different subjects are in
-- different windows.
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
    select e.id, e.published_at, md5(jsonb_build_array(e.name, s.kind, e.key, match_of(e.data, s.by_paths))::text || coalesce(e.subject, ''))::uuid, s.kind, e.name
    from event e join unnest(subscribers) s on s.event = e.name
    where e.id = any(ids) and s.debounce is not null and (s.paths is null or match_of(e.data, s.paths) = s.match)
    on conflict do nothing;
  end if;
  return query
    with published as materialized (
      select e.id, e.name, e.key, e.data, jsonb_build_object('event', jsonb_strip_nulls(jsonb_build_object('id', e.id, 'name', e.name,
        'publishedAt', to_char(e.published_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'key', e.key))) as meta,
        subject_meta(e.subject) as about
      from event e where e.id = any(ids)
    ), subscriber as materialized (
      select s.event, s.kind, s.paths, s.match, s.debounce is not null as is_list, k.*
      from unnest(subscribers) s, kind_defaults(s.kind) k
      where s.debounce is null or replay is not null
    )
    insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, key, on_dead, meta, created_at, updated_at)
    select coalesce(replay, event_job(e.id, s.kind)), s.queue, s.kind, case when s.is_list then 2 else 1 end,
      case when s.is_list then jsonb_build_array(e.data) else e.data end, s.priority, coalesce(follows.run_at, now_), s.max_attempts,
      e.key, s.on_dead, case when s.is_list then list_meta(e.name, e.key, jsonb_build_array((e.meta->'event') - '{name,key}'::text[])) else e.meta end || e.about,
      coalesce(follows.created_at, now_), now_
    from published e join subscriber s on s.event = e.name and (s.paths is null or replay is not null or match_of(e.data, s.paths) = s.match)
    left join lateral behind_key(s.queue, e.key, s.priority, event_job(e.id, s.kind), now_, now_) follows on e.key is not null
    order by e.id
    on conflict do nothing
    returning queue, kind, (meta->'event'->>'id')::uuid;
end
$$;

-- Makes a job of each window that is to be closed: no event was published for its `debounce`, it has `most` events, or its
-- subscriber has no windows any more. Closes up to `windows` of them. The payload is the list of the events' data, at most
-- 1 MiB: larger windows make several jobs. Returns {jobs: [{queue, kind, count}], closed, next, debounce}: how many windows
-- were closed, when the next one is to be closed, and the smallest `debounce`, both in milliseconds.
create or replace function close_windows(now_ms float8, windows int) returns jsonb
language plpgsql
set search_path from current
as $$
declare
  now_ timestamptz := to_timestamp(now_ms / 1000);
  answer jsonb;
begin
  with open as (
    select w.kind, w.bucket, min(w.name) as name, count(*) as size, max(w.at) as last
    from windowed_event w where w.job is null group by w.kind, w.bucket
  ), due as materialized (
    select o.kind, o.bucket, o.name, coalesce(s.most, 100) as most, o.last + s.debounce * interval '1 ms' > now_ as is_early
    from open o left join subscription s on s.event = o.name and s.kind = o.kind and s.debounce is not null
    where s.kind is null or o.last + s.debounce * interval '1 ms' <= now_ or o.size >= s.most
    order by o.last limit windows
  ), taken as materialized (
    -- Another leader may be closing the same windows: after the wait its rows do not qualify.
    select w.event, w.kind, w.bucket from due d join windowed_event w on w.kind = d.kind and w.bucket = d.bucket
    where w.job is null order by w.kind, w.bucket, w.event for update of w
  ), placed as (
    select t.kind, t.bucket, d.name, d.most, d.is_early, e.id, e.key, e.published_at, e.subject, e.data,
      row_number() over each as place, count(*) over (partition by t.kind, t.bucket) as size,
      sum(octet_length(e.data::text) + 2) over each as bytes
    from taken t join due d on d.kind = t.kind and d.bucket = t.bucket join event e on e.id = t.event
    window each as (partition by t.kind, t.bucket order by t.event)
  ), part as materialized (
    select p.kind, (array_agg(p.id order by p.id))[1] as first, min(p.key) as key, array_agg(p.id) as events,
      jsonb_agg(p.data order by p.id) as payload,
      list_meta(min(p.name), min(p.key), jsonb_agg(jsonb_build_object('id', p.id, 'publishedAt',
        to_char(p.published_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) order by p.id)) || subject_meta(min(p.subject)) as meta
    from placed p where p.is_early is not true or p.place <= p.size / p.most * p.most
    group by p.kind, p.bucket, (p.place - 1) / p.most, floor(p.bytes / 900000)
  ), stored as (
    insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, key, on_dead, meta, created_at, updated_at)
    -- Not the id of a job of one event.
    select event_job(p.first, p.kind || ' window'), k.queue, p.kind, 2, p.payload, k.priority, coalesce(follows.run_at, now_), k.max_attempts,
      p.key, k.on_dead, p.meta, coalesce(follows.created_at, now_), now_
    from part p cross join lateral kind_defaults(p.kind) k
    left join lateral behind_key(k.queue, p.key, k.priority, event_job(p.first, p.kind || ' window'), now_, now_) follows on p.key is not null
    order by p.first
    returning id, queue, kind
  ), noted as (
    update windowed_event w set job = s.id
    from part p join stored s on s.id = event_job(p.first, p.kind || ' window')
    where w.kind = p.kind and w.event = any(p.events)
  )
  select jsonb_build_object('closed', (select count(*) from due), 'jobs', coalesce((
    select jsonb_agg(jsonb_build_object('queue', c.queue, 'kind', c.kind, 'count', c.count))
    from (select s.queue, s.kind, count(*) from stored s group by 1, 2) c
  ), '[]')) into answer;

  return answer || jsonb_build_object(
    'next', (select extract(epoch from min(o.last + s.debounce * interval '1 ms')) * 1000
      from (select w.kind, w.name, max(w.at) as last from windowed_event w where w.job is null group by w.kind, w.name, w.bucket) o
      join subscription s on s.event = o.name and s.kind = o.kind),
    'debounce', (select min(s.debounce) from subscription s));
end
$$;
