-- Oldest code: 0.1.0
-- What a kind's payload looks like, as JSON Schema, so that programs without its code can check one.
-- And the SQL door again: with key, meta, delay and force, and refusing what the other doors refuse.

alter table kind add column schema jsonb;

-- Other parameters make another function, so the old one goes. Rights that were granted on it have to be granted again.
drop function enqueue(text, jsonb, text, timestamptz, int, text, int);

-- A number in the payload that a handler would get as another: handlers read 64-bit floats. Fractions are not looked at.
create function lost_number(payload jsonb) returns numeric
language sql immutable
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
    -- Fifteen digits always survive, wherever the point is.
    when length(trim('0' from trunc(abs(found.n))::text)) <= 15 then false
    else found.n::float8::text::numeric <> found.n
  end
  limit 1
$$;

create function enqueue(
  kind text,
  payload jsonb,
  queue text default null,
  run_at timestamptz default null,
  priority int default 0,
  dedupe_key text default null,
  max_attempts int default null,
  key text default null,
  meta jsonb default null,
  delay interval default null,
  force boolean default false
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
  attempts int;
  start timestamptz;
  lost numeric;
  cap int;
  -- Version 7: the server's milliseconds, then chance; PostgreSQL 14 has no function for it.
  new_id uuid := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send((extract(epoch from now_) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid;
  standing uuid;
  window_is_over boolean;
begin
  select * into known from kind k where k.name = enqueue.kind;
  if not found and enqueue.force is not true then
    raise exception 'No pod has ever registered the kind "%".', enqueue.kind
      using errcode = 'check_violation', hint = 'Start a pod that serves it first, or add force => true.';
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
  -- Few payloads hold so many brackets or such long numbers; only those are looked through.
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
  if enqueue.priority not between -32768 and 32767 then
    raise exception 'priority must be a whole number from -32768 to 32767' using errcode = 'numeric_value_out_of_range';
  end if;
  target := coalesce(enqueue.queue,
    case when coalesce(known.routed, true) then route_of(enqueue.kind) end, known.queue, 'default');
  if target !~ '^[A-Za-z0-9_.-]{1,64}$' then
    raise exception 'queue must be 1 to 64 letters, digits, _, . or -' using errcode = 'invalid_parameter_value';
  end if;
  attempts := coalesce(enqueue.max_attempts, known.max_attempts, 5);
  if attempts not between 1 and 1000 then
    raise exception 'max_attempts must be a whole number from 1 to 1000' using errcode = 'numeric_value_out_of_range';
  end if;
  if length(enqueue.dedupe_key) not between 1 and 512 then
    raise exception 'dedupe_key must be 1 to 512 characters long' using errcode = 'invalid_parameter_value';
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
    raise exception 'give run_at or delay, not both' using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.delay < interval '0' or enqueue.delay > interval '36500 days' then
    raise exception 'delay must be between 0 and 36500 days' using errcode = 'interval_field_overflow';
  end if;
  start := coalesce(enqueue.run_at, now_ + enqueue.delay, now_);
  if start < '1970-01-01 00:00:00+00' or start >= '10000-01-01 00:00:00+00' then
    raise exception 'run_at must be an instant of the years 1970 to 9999' using errcode = 'datetime_field_overflow';
  end if;

  -- Whoever holds the key may let go of it between our insert and our look: then the next insert succeeds.
  for try in 1..10 loop
    select j.id, j.finished_at is not null and j.dedupe_until <= now_ into standing, window_is_over from job j
    where j.dedupe_key = enqueue.dedupe_key and (j.dedupe_scope = 'retained' or j.finished_at is null);
    if found then
      if window_is_over is not true then
        return standing;
      end if;
      update job j set dedupe_key = null, dedupe_scope = null, dedupe_until = null
      where j.id = standing and j.finished_at is not null and j.dedupe_until <= now_;
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
    insert into job (id, queue, kind, version, payload, priority, run_at, max_attempts, key, dedupe_key, dedupe_scope,
      on_dead, meta, created_at, updated_at)
    values (new_id, target, enqueue.kind, coalesce(known.version, 1), enqueue.payload, enqueue.priority::smallint,
      start, attempts::smallint, enqueue.key, enqueue.dedupe_key,
      case when enqueue.dedupe_key is not null then 'active' end, known.on_dead, enqueue.meta, now_, now_)
    on conflict do nothing;
    if found then
      perform pg_notify(current_schema || '_work', target);
      return new_id;
    end if;
  end loop;
  raise exception 'the dedupe key changed hands at every try' using errcode = 'serialization_failure';
end
$$;
