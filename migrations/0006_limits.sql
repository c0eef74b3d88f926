-- Oldest code: 0.1.0
-- Where jobs go that name no queue, and token buckets.

-- A kind that names no queue lets the routes decide; `queue` is then where it goes when no route has a say. Code that does
-- not know this column registers and reads such a kind as one of `queue`.
alter table kind add column routed boolean not null default false;

-- Routes as pods declare them: kinds whose name begins so go there.
create table route (
  prefix text not null,
  queue text not null,
  registered_at timestamptz not null,
  updated_at timestamptz not null,

  constraint route_pkey primary key (prefix)
);

-- The same choice as the program's `Routes.decide`: prefixes of one name are nested, so the longest is the narrowest.
create function route_of(kind text) returns text
language sql stable
set search_path from current
as $$
  select r.queue from route r where starts_with(route_of.kind, r.prefix) order by length(r.prefix) desc limit 1
$$;

-- The SQL door as it was, with routes, and with the queue's cap that the other doors respect.
create or replace function enqueue(
  kind text,
  payload jsonb,
  queue text default null,
  run_at timestamptz default null,
  priority int default 0,
  dedupe_key text default null,
  max_attempts int default null
) returns uuid
language plpgsql
set search_path from current
as $$
#variable_conflict use_column
declare
  now_ timestamptz := clock_timestamp();
  known kind%rowtype;
  target text;
  attempts int;
  cap int;
  -- Version 7: the server's milliseconds, then chance; PostgreSQL 14 has no function for it.
  new_id uuid := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send((extract(epoch from now_) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid;
  standing uuid;
begin
  select * into known from kind k where k.name = enqueue.kind;
  if not found then
    raise exception 'No pod has ever registered the kind "%".', enqueue.kind
      using errcode = 'check_violation', hint = 'Start a pod that serves it first.';
  end if;
  if enqueue.payload is null then
    raise exception 'payload must not be null' using errcode = 'null_value_not_allowed';
  end if;
  if octet_length(enqueue.payload::text) > 1048576 then
    raise exception 'payload is larger than 1048576 bytes as JSON' using errcode = 'program_limit_exceeded';
  end if;
  if enqueue.priority not between -32768 and 32767 then
    raise exception 'priority must be a whole number from -32768 to 32767' using errcode = 'numeric_value_out_of_range';
  end if;
  target := coalesce(enqueue.queue, case when known.routed then route_of(enqueue.kind) end, known.queue);
  if target !~ '^[A-Za-z0-9_.-]{1,64}$' then
    raise exception 'queue must be 1 to 64 letters, digits, _, . or -' using errcode = 'invalid_parameter_value';
  end if;
  attempts := coalesce(enqueue.max_attempts, known.max_attempts);
  if attempts not between 1 and 1000 then
    raise exception 'max_attempts must be a whole number from 1 to 1000' using errcode = 'numeric_value_out_of_range';
  end if;
  if length(enqueue.dedupe_key) not between 1 and 512 then
    raise exception 'dedupe_key must be 1 to 512 characters long' using errcode = 'invalid_parameter_value';
  end if;

  -- Whoever holds the key may let go of it between our insert and our look: then the next insert succeeds.
  for try in 1..10 loop
    select j.id into standing from job j
    where j.dedupe_key = enqueue.dedupe_key and (j.dedupe_scope = 'retained' or j.finished_at is null);
    if found then
      return standing;
    end if;
    select q.depth_cap into cap from queue q where q.name = target;
    if cap is not null then
      if cap <= (select count(*) from (
        select from job j where j.queue = target and j.finished_at is null and j.lease is null limit cap) w
      ) then
        raise exception 'Queue "%" is full: % jobs wait in it already.', target, cap
          using errcode = 'configuration_limit_exceeded', hint = 'Try again when it has drained, or raise its depth cap.';
      end if;
    end if;
    insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, dedupe_key, dedupe_scope,
      on_dead, created_at, updated_at)
    values (new_id, target, enqueue.kind, known.version, enqueue.payload, enqueue.priority::smallint,
      coalesce(enqueue.run_at, now_), attempts::smallint, enqueue.dedupe_key,
      case when enqueue.dedupe_key is not null then 'active' end, known.on_dead, now_, now_)
    on conflict do nothing;
    if found then
      perform pg_notify(current_schema || '_work', target);
      return new_id;
    end if;
  end loop;
  raise exception 'the dedupe key changed hands at every try' using errcode = 'serialization_failure';
end
$$;

-- Token buckets, one row each: whoever acquires locks the row, so nobody can take a token twice.
create table rate_limit (
  scope text not null,
  -- What the code says, and what an operator says instead. A rate is tokens per second.
  capacity float8 not null,
  rate float8 not null,
  tuned_capacity float8,
  tuned_rate float8,
  -- How many tokens there were at that instant. An instant to come means that none come in before it.
  tokens float8 not null,
  refilled_at timestamptz not null,
  -- What pods took ahead and may still use: {pod: [tokens, until when in epoch milliseconds]}. It counts against the
  -- capacity as if it were still in the bucket.
  blocks jsonb not null default '{}',
  registered_at timestamptz not null,
  updated_at timestamptz not null,

  constraint rate_limit_pkey primary key (scope),
  constraint rate_limit_is_one check (
    capacity >= 1 and rate > 0 and tokens >= 0
    and (tuned_capacity is null or tuned_capacity >= 1) and (tuned_rate is null or tuned_rate > 0)
  )
) with (
  -- A few rows, each written at every call of an upstream: room on the page for the new version, and vacuum soon.
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0
);
