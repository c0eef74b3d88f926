-- Oldest code: 0.1.0
-- What happened, minute by minute: jobs per queue and kind, the resources of each pod, the health of the database.
-- Nothing here is written per job. A pod counts in memory and writes what it has counted of a minute every few seconds.

-- One row per bucket, queue, kind and pod. A bucket holds a minute; the same is kept of ten minutes and of an hour, because
-- a chart of a week cannot merge ten thousand minutes at a glance. A pod writes its counts of a bucket whole, and again
-- when they have grown.
create table job_bucket (
  minutes smallint not null,
  start timestamptz not null,
  queue text not null,
  kind text not null,
  pod_id uuid not null,
  -- Rises with every flush of the pod: a flush that was believed lost and arrives late does not undo a newer one.
  revision int not null,
  enqueued int not null,
  started int not null,
  completed int not null,
  retried int not null,
  dead int not null,
  rescued int not null,
  -- Latencies in milliseconds: from the start of a run to its end, and from being due to that end. The bytes are a
  -- histogram (src/measures/SketchBytes.ts); those of several rows, joined, are all of them merged.
  processing_sum float8 not null,
  processing_max float8 not null,
  processing bytea not null,
  total_sum float8 not null,
  total_max float8 not null,
  total bytea not null,

  -- By width and time first: charts read ranges, and what is old goes from the front.
  constraint job_bucket_pkey primary key (minutes, start, queue, kind, pod_id),
  constraint job_bucket_minutes_known check (minutes in (1, 10, 60))
) with (
  -- The rows of open buckets are replaced every few seconds, in place where the page has room.
  fillfactor = 75,
  autovacuum_vacuum_scale_factor = 0.05
);

-- What a process used, once a minute.
create table pod_sample (
  minute timestamptz not null,
  pod_id uuid not null,
  -- Processor time over elapsed time since the sample before: 1 is one core, busy.
  cpu float8 not null,
  rss_bytes bigint not null,
  -- Seconds by which callbacks were late.
  event_loop_p99 float8 not null,
  event_loop_max float8 not null,
  pool_busy int not null,
  pool_idle int not null,
  pool_waiting int not null,
  -- How long its statements took, in milliseconds.
  statement_sum float8 not null,
  statement_max float8 not null,
  statement bytea not null,

  constraint pod_sample_pkey primary key (minute, pod_id)
);

-- What the database looked like, once a minute, by whichever pod came first.
create table database_sample (
  minute timestamptz not null,
  size_bytes bigint not null,
  -- The job table with its indexes.
  job_bytes bigint not null,
  job_live_tuples bigint not null,
  job_dead_tuples bigint not null,
  -- The transaction that has been open for the longest keeps vacuum from removing what died since it began.
  oldest_transaction_seconds float8 not null,
  connections int not null,

  constraint database_sample_pkey primary key (minute)
);
