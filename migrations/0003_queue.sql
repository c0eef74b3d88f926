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
