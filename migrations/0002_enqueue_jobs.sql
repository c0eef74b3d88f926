-- Oldest code: 0.1.0
-- Stores jobs in the transaction of a program that uses another library for PostgreSQL, by one statement. The program has
-- checked the jobs and gives every instant; `request` holds `now` in epoch milliseconds and `jobs`. For the program's own
-- use: people call `enqueue`.

create function enqueue_jobs(request jsonb)
returns table (place int, id uuid, outcome text, note text)
language plpgsql
set search_path from current
as $$
#variable_conflict use_column
declare
  now_ timestamptz := to_timestamp((request->>'now')::float8 / 1000);
  given record;
  holder record;
  is_stored boolean;
begin
  -- What cannot be stored is found before anything is, so that the caller's transaction stays as it was.
  for given in
    select g.place, g.id from job j
    join jsonb_to_recordset(request->'jobs') as g(place int, id uuid, queue text, kind text, version int, payload jsonb, own_id boolean)
      on j.id = g.id
    where g.own_id and (j.kind, j.version, j.queue, j.payload) <> (g.kind, g.version, g.queue, coalesce(g.payload, 'null'))
    order by g.place limit 1
  loop
    return query select given.place, given.id, 'id_taken', null::text;
    return;
  end loop;
  for given in
    select g.queue, q.depth_cap as cap, count(*) as newcomers
    from jsonb_to_recordset(request->'jobs') as g(id uuid, queue text, dedupe_key text)
    join queue q on q.name = g.queue and q.depth_cap is not null
    where not exists (select from job j where j.id = g.id)
      and not exists (
        select from job j
        where j.dedupe_key = g.dedupe_key and (j.dedupe_scope = 'retained' or j.finished_at is null)
          and (j.finished_at is null or j.dedupe_until > now_ or j.dedupe_until is null)
      )
    group by 1, 2
  loop
    if given.cap - given.newcomers < (select count(*) from (
      select from job j where j.queue = given.queue and j.finished_at is null and j.lease is null limit given.cap) w)
    then
      return query select 0, null::uuid, 'queue_full', given.queue || ' ' || given.cap;
      return;
    end if;
  end loop;

  return query
    with plain as (
      select g.* from jsonb_to_recordset(request->'jobs') as g(place int, id uuid, queue text, kind text, version int,
        payload jsonb, priority smallint, run_at float8, max_attempts smallint, key text, dedupe_key text, on_dead jsonb,
        meta jsonb, own_id boolean)
      where g.dedupe_key is null and not g.own_id
    ), stored as (
      insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, key, on_dead, meta,
        created_at, updated_at)
      select p.id, p.queue, p.kind, p.version, coalesce(p.payload, 'null'), p.priority, to_timestamp(p.run_at / 1000),
        p.max_attempts, p.key, p.on_dead, p.meta, now_, now_
      from plain p
    )
    select p.place, p.id, 'enqueued', null::text from plain p;

  -- Two transactions that hold the same keys in opposite order would wait for each other: all take them in one order.
  for given in
    select g.*, to_timestamp(g.run_at / 1000) as starts, to_timestamp(g.dedupe_until / 1000) as held_until
    from jsonb_to_recordset(request->'jobs') as g(place int, id uuid, queue text, kind text, version int, payload jsonb,
      priority smallint, run_at float8, max_attempts smallint, key text, dedupe_key text, dedupe_scope text,
      dedupe_until float8, replace boolean, on_dead jsonb, meta jsonb, own_id boolean)
    where g.dedupe_key is not null or g.own_id
    order by g.dedupe_key nulls first, g.place
  loop
    is_stored := false;
    -- Whoever holds the key may let go of it between our insert and our look: then the next insert succeeds.
    for try in 1..10 loop
      insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, key, dedupe_key, dedupe_scope,
        dedupe_until, on_dead, meta, created_at, updated_at)
      values (given.id, given.queue, given.kind, given.version, coalesce(given.payload, 'null'), given.priority, given.starts,
        given.max_attempts, given.key, given.dedupe_key, given.dedupe_scope, given.held_until, given.on_dead, given.meta,
        now_, now_)
      on conflict do nothing;
      if found then
        return query select given.place, given.id, 'enqueued', null::text;
        is_stored := true;
        exit;
      end if;
      select j.id, j.id = given.id as is_same, j.kind, j.status,
        coalesce(j.finished_at is not null and j.dedupe_until <= now_, false) as lapsed
      into holder from job j
      where j.id = given.id
        or (j.dedupe_key = given.dedupe_key and (j.dedupe_scope = 'retained' or j.finished_at is null))
      order by j.id = given.id desc limit 1;
      continue when not found;
      if holder.is_same then
        return query select given.place, given.id, 'enqueued', null::text;
        is_stored := true;
        exit;
      end if;
      if holder.lapsed then
        update job j set dedupe_key = null, dedupe_scope = null, dedupe_until = null
        where j.id = holder.id and j.finished_at is not null and j.dedupe_until <= now_;
        continue;
      end if;
      if given.replace and holder.kind = given.kind then
        update job j set payload = coalesce(given.payload, 'null'), version = given.version, run_at = given.starts,
          priority = given.priority, updated_at = now_
        where j.id = holder.id and j.status = 'pending';
      end if;
      return query select given.place, holder.id, 'deduplicated', null::text;
      is_stored := true;
      exit;
    end loop;
    if not is_stored then
      raise exception 'the dedupe key changed hands at every try' using errcode = 'serialization_failure';
    end if;
  end loop;

  perform pg_notify(current_schema || '_work', named.queue)
  from (select distinct g.queue from jsonb_to_recordset(request->'jobs') as g(queue text)) named;
end
$$;
