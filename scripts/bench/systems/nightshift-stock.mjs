// Fills the database like half a day of use. Of 20 jobs, 16 are done, 1 is dead, 1 waits for a retry, 1 is scheduled
// for tomorrow, and 1 is due in a queue that no pod serves.

const past = "now() - (1 + n::float8 / $1::int * 43200) * interval '1 second'"

// Time-ordered ids (UUIDv7), as in production: lists sort by them.
const id = `encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
  placing substring(int8send((extract(epoch from at) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid`

const isOver = "part < 17"

export const jobs = `
  insert into nightshift.job (id, kind, version, queue, payload, status, priority, run_at, attempt, max_attempts, key,
    dedupe_key, dedupe_scope, created_at, updated_at, started_at, finished_at, dead_reason, last_error)
  select ${id}, 'kind-' || n % 7, 1, 'queue-' || n % 9,
    jsonb_build_object('n', n, 'customer', n % 5000, 'text', repeat('x', 180)),
    case when part < 16 then 'done' when part = 16 then 'dead' else 'pending' end, 0,
    case when part in (17, 18) then now() + interval '1 day' else at end, (part < 18)::int, 5,
    case when n % 3 = 0 then 'key-' || n % 500 end,
    case when n % 4 = 0 then 'once-' || n end, case when n % 4 = 0 then 'active' end,
    at, at, case when part < 18 then at end, case when ${isOver} then at end,
    case when part = 16 then (array['exhausted', 'rejected', 'cancelled'])[1 + n % 3] end,
    case when part in (16, 17) then 'Error: no answer from ' || (array['bank', 'mail', 'map', 'shop'])[1 + n % 4] || ' after ' || n || ' ms' end
  from (select n, (n / 7) % 20 as part, ${past} as at from generate_series(1, $1::int) as n) as life`

// Chart data: one row per minute, queue and kind.
export const minutes = `
  insert into nightshift.job_bucket (minutes, start, queue, kind, pod_id, revision, enqueued, started, completed, retried,
    dead, cancelled, rescued, processing_sum, processing_max, processing, total_sum, total_max, total)
  select 1, date_trunc('minute', ${past}), 'queue-' || n % 9, 'kind-' || n % 7, '00000000-0000-7000-8000-000000000000', 1,
    count(*), count(*), count(*), 0, 0, 0, 0, 10, 10, '\\x0a01', 20, 20, '\\x1401'
  from generate_series(1, $1::int) as n
  group by 2, 3, 4`

// A schedule with runs and history that never fires during a measurement.
export const schedule = `
  insert into nightshift.schedule (name, kind, payload, cron, paused, created_at, updated_at)
  values ('nightly', 'kind-0', '{}', '0 3 * * *', true, now(), now())`
