-- Oldest code: 0.1.0
-- What happened, minute by minute: jobs per queue and kind, the resources of each pod, the health of the database.
-- Nothing here is written per job. A pod counts in memory and writes what it has counted of a minute every few seconds.

-- One row per minute, queue, kind and pod. A pod writes its counts of a minute whole, and again when they have grown.
create table minute_bucket (
  minute timestamptz not null,
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
  -- Latencies in milliseconds: from the start of a run to its end, and from being due to that end. Places and counts
  -- are a histogram's (src/telemetry/Histogram.ts); equal places of different rows are merged by adding.
  processing_sum float8 not null,
  processing_max float8 not null,
  processing_places smallint[] not null,
  processing_counts int[] not null,
  total_sum float8 not null,
  total_max float8 not null,
  total_places smallint[] not null,
  total_counts int[] not null,

  -- By minute first: charts read ranges, and what is old goes from the front.
  constraint minute_bucket_pkey primary key (minute, queue, kind, pod_id)
) with (
  -- The rows of the open minute are replaced every few seconds, in place where the page has room.
  fillfactor = 50,
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
  statement_places smallint[] not null,
  statement_counts int[] not null,

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
