-- Oldest code: 0.1.0
-- What operators want of each queue, and whose turn it is among the keys of one.

create table queue (
  name text not null,
  max_workers int not null default 10,
  paused boolean not null default false,
  retain_done interval,
  retain_dead interval,
  backoff_enabled boolean not null default false,
  backoff_base interval not null default '60 seconds',
  backoff_max interval not null default '30 minutes',

  -- At most so many claims in so long: a bucket of tokens. No tokens written down means that it is full.
  rate_jobs int,
  rate_per interval,
  rate_tokens float8,
  rate_filled_at timestamptz,

  key_concurrency int,
  key_order text,
  depth_cap int,

  -- The cool-down that a throttled job asked for; how many followed each other, and when calm came after the last one.
  throttled_until timestamptz,
  throttle_attempts int not null default 0,
  calm_since timestamptz,
  -- Some key cools down until then: claims must look at keys for so long.
  keys_cooling_until timestamptz,

  -- Rises with every change an operator makes.
  revision int not null default 1,
  created_at timestamptz not null,
  updated_at timestamptz not null,

  constraint queue_pkey primary key (name),
  constraint queue_name_fits check (name ~ '^[A-Za-z0-9_.-]{1,64}$'),
  constraint queue_rate_is_whole check (
    (rate_jobs is null) = (rate_per is null) and (rate_tokens is null) = (rate_filled_at is null)
  ),
  constraint queue_key_limit_is_whole check ((key_concurrency is null) = (key_order is null)),
  constraint queue_key_order_known check (key_order in ('none', 'serial', 'strict')),
  -- Order among jobs of a key means one at a time.
  constraint queue_key_order_is_single check (key_order = 'none' or key_concurrency = 1)
) with (
  -- A few rows, of which some are written at every claim: room keeps their versions on one page.
  fillfactor = 20
);

-- A claim of a key's jobs looks which of those taken before still run, and turns the row: if somebody else has turned it
-- since, what was seen is not to be trusted and nothing is taken. Ends need not touch it, because they only make room.
create table key_turn (
  queue text not null,
  key text not null,
  turn bigint not null,
  turned_at timestamptz not null,
  -- The jobs that the last claims took: whether they still run, or in strict order are not yet over, is asked of their rows.
  taken uuid[] not null default '{}',
  -- Jobs of this key are not claimed before then.
  cooling_until timestamptz,

  constraint key_turn_pkey primary key (queue, key)
) with (
  -- Turned at every claim, never moved in its index.
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

-- The SQL door respects a queue's cap as the other doors do.
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
  target := coalesce(enqueue.queue, known.queue);
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
      if cap <= (select count(*) from (select from job j where j.queue = target and j.finished_at is null limit cap) w) then
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
