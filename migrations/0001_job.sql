-- Oldest code: 0.1.0
-- The job table, and the kinds that pods have registered.
-- No default and no trigger here says now(): every instant comes from the program's clock.

create table job (
  id uuid not null,
  lease uuid,
  pod_id uuid,
  run_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  started_at timestamptz,
  heartbeat_at timestamptz,
  finished_at timestamptz,
  cancel_requested_at timestamptz,
  dedupe_until timestamptz,
  version int not null default 1,
  priority smallint not null default 0,
  attempt smallint not null default 0,
  max_attempts smallint not null,
  crash_count smallint not null default 0,
  death_count smallint not null default 0,
  status text not null default 'pending',
  queue text not null,
  kind text not null,
  key text,
  dedupe_key text,
  dedupe_scope text,
  dead_reason text,
  payload jsonb not null,
  meta jsonb,
  on_dead jsonb,
  progress jsonb,
  result jsonb,
  last_error text,
  history jsonb,

  constraint job_pkey primary key (id),
  constraint job_status_known check (status in ('pending', 'running', 'done', 'dead')),
  -- A run leaves its marks while it lasts and only then: the lease is the fence of every later write about it.
  constraint job_running_is_leased check (
    (status = 'running') = (lease is not null)
    and (lease is null) = (pod_id is null)
    and (lease is null) = (heartbeat_at is null)
    and (lease is null or started_at is not null)
  ),
  constraint job_end_is_dated check ((status in ('done', 'dead')) = (finished_at is not null)),
  constraint job_death_has_reason check ((status = 'dead') = (dead_reason is not null)),
  constraint job_dead_reason_known check (
    dead_reason in ('exhausted', 'rejected', 'cancelled', 'undecodable', 'unknown_kind', 'poison')
  ),
  constraint job_attempts_bounded check (attempt between 0 and max_attempts),
  constraint job_dedupe_is_whole check (
    (dedupe_key is null) = (dedupe_scope is null) and dedupe_scope in ('active', 'retained')
  )
) with (
  -- Every job is updated twice before it is done: room on the page keeps the new version beside the old one.
  fillfactor = 70,
  -- A table that turns over is vacuumed by how much died, not by how large it is.
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

-- What is due: a claim reads a stretch of this for one queue and one priority.
create index job_claim on job (queue, priority, run_at, id) where status = 'pending';

-- Who holds a dedupe key. `active` holds it until the job ends, `retained` until the row is gone.
create unique index job_dedupe on job (dedupe_key)
  where dedupe_key is not null and (dedupe_scope = 'retained' or status in ('pending', 'running'));

-- What a pod lost: running rows by the age of their last sign of life.
create index job_heartbeat on job (heartbeat_at) where status = 'running';

-- What can be forgotten.
create index job_finished on job (finished_at) where status in ('done', 'dead');

-- What shares a key and is not over, for limits and order per key.
create index job_key on job (queue, key, priority, run_at, id) where key is not null and status in ('pending', 'running');

-- Kinds as the pods that serve them declare them, so that those without the code can route and validate.
create table kind (
  name text not null,
  queue text not null,
  version int not null,
  max_attempts smallint not null,
  on_dead jsonb,
  registered_at timestamptz not null,
  updated_at timestamptz not null,

  constraint kind_pkey primary key (name)
);
