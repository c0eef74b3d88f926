-- Oldest code: 0.1.0
-- Claiming a job changes its row but none of its index entries. PostgreSQL then keeps the new version beside the old one
-- on the same page and touches no index, which makes a claim a third cheaper; it does so only if no index, in its columns
-- or in its condition, mentions what changed. So "not over" is said by finished_at, which a claim leaves alone, instead of
-- by status; and what runs is found through the leases instead of through an index of running jobs.

-- Room for a second version of every row, because each is claimed once.
alter table job set (fillfactor = 50);

drop index job_claim;
create index job_claim on job (queue, priority, run_at, id) where finished_at is null;

drop index job_dedupe;
create unique index job_dedupe on job (dedupe_key)
  where dedupe_key is not null and (dedupe_scope = 'retained' or finished_at is null);

drop index job_heartbeat;

drop index job_finished;
create index job_finished on job (finished_at) where finished_at is not null;

drop index job_key;
create index job_key on job (queue, key, priority, run_at, id) where key is not null and finished_at is null;

-- What a claim took. It is written with the claim and goes with the end of its last job; what a pod that is gone had taken
-- is found here.
create table lease (
  id uuid not null,
  pod_id uuid not null,
  claimed_at timestamptz not null,
  jobs uuid[] not null,

  constraint lease_pkey primary key (id)
) with (
  autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- Chance does not compress: trying to would cost every large claim.
alter table lease alter column jobs set storage external;
