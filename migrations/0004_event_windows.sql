-- Oldest code: 0.1.0
--
-- Subscribers that get several events in one job: windowed_event, columns of subscription, and the SQL functions
-- close_windows() and kind_defaults(). deliver_events() stores their events in a window instead of a job.

-- How long no event must have been published until a window is closed, in milliseconds. Null: each event makes a job.
alter table subscription add column debounce float8;
-- A window with this many events is closed at once.
alter table subscription add column most int;
-- Events with different values at these paths are in different windows, see event_wait.
alter table subscription add column by_paths jsonb;

-- An event in a window of a subscriber. close_windows() makes a job of all events of a window. A row for each event, and none
-- for the window: publishers only insert, so none waits for another.
create table windowed_event (
  event uuid not null,
  -- When the event was published.
  at timestamptz not null,
  -- A digest of the event's name, the subscriber, the key, and the values at by_paths.
  bucket uuid not null,
  -- The job that has the event. Null while the window is open; retention then keeps the event.
  job uuid,
  kind text not null,
  name text not null,

  constraint windowed_event_pkey primary key (event, kind)
);

-- The events of open windows. Used by close_windows().
create index windowed_event_open on windowed_event (kind, bucket, event) where job is null;

-- What a job of this kind gets if it is not said.
create function kind_defaults(kind text) returns table (queue text, priority smallint, max_attempts smallint, on_dead jsonb)
language sql stable
begin atomic
  select coalesce(case when k.routed then route_of(k.name) end, k.queue), k.priority, k.max_attempts,
    case when k.on_dead ? 'routed' then (k.on_dead - 'routed')
      || jsonb_build_object('queue', coalesce(route_of(k.on_dead->>'kind'), k.on_dead->>'queue')) else k.on_dead end
  from kind k where k.name = $1;
end;

-- The `meta` of a job with several events.
create function list_meta(name text, key text, events jsonb) returns jsonb
language sql immutable parallel safe
begin atomic
  select jsonb_build_object('event', jsonb_strip_nulls(jsonb_build_object('name', $1, 'key', $2)), 'events', $3);
end;

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
      where not exists (select from event e where e.id = i.id and only_ = any(e.delivered))
        and not exists (select from windowed_event w where w.event = i.id and w.kind = only_)
        and not exists (select from job j where j.id = event_job(i.id, only_)));
  end if;
  subscribers := array(select s from subscription s
    where s.event in (select e.name from event e where e.id = any(ids)) and (only_ is null or s.kind = only_));
  -- The job may be deleted before fill_subscription() reads the event.
  if only_ is null and exists (select from unnest(subscribers) s where s.fill_from is not null) then
    update event e set delivered = array(select s.kind from unnest(subscribers) s where s.event = e.name and s.fill_from is not null)
    where e.id = any(ids);
  end if;
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
create function close_windows(now_ms float8, windows int) returns jsonb
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
