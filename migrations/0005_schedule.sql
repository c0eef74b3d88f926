-- Oldest code: 0.1.0
-- Schedules: jobs that come again and again.

create table schedule (
  name text not null,
  kind text not null,
  payload jsonb not null,
  cron text not null,
  timezone text not null default 'UTC',
  -- Null: the kind's own.
  queue text,
  max_attempts smallint,
  overlap text not null default 'allow',
  missed text not null default 'one',
  missed_limit smallint,
  enabled boolean not null default true,
  origin text not null default 'operator',
  -- What code declared last, and which fields an operator has changed since: those are not code's any more.
  fingerprint text,
  edited text[] not null default '{}',
  -- Null: no scheduler has seen it yet. It is given its next time then, and does not fire.
  next_fire_at timestamptz,
  last_fire_at timestamptz,
  last_skip_at timestamptz,
  last_error text,
  last_job_id uuid,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- Code that still declares a schedule must not bring back what an operator removed: its row stays, an operator's goes.
  removed_at timestamptz,
  -- Rises with every write: who wants to fire says what they have read, and of many one succeeds.
  revision bigint not null default 1,

  constraint schedule_pkey primary key (name),
  constraint schedule_overlap_known check (overlap in ('allow', 'skip')),
  constraint schedule_missed_known check (missed in ('one', 'none', 'all')),
  constraint schedule_missed_is_whole check ((missed = 'all') = (missed_limit is not null)),
  constraint schedule_origin_known check (origin in ('code', 'operator'))
) with (fillfactor = 80);

-- What is due, and when the next one is.
create index schedule_due on schedule (next_fire_at nulls first) where enabled and removed_at is null;
