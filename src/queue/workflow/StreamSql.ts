import { instant, millis } from "../../database/SqlInstant.js"
import { few, hot } from "../../database/Statements.js"

/** A page holds at most this many rows of chunks, and about this many bytes. */
const page = { rows: 500, bytes: 256 * 1024 }

/** The recorded result of the attempt that writes the stream `s`, or of a later one that failed before it wrote. */
export const result = (schema: string) => `(
    select outcome, exit, ended_at from ${schema}.workflow_step
    where job_id = s.job_id and name = s.name and attempt >= s.attempt and reopened_at is null and outcome <> 'retrying'
    order by attempt desc limit 1
  )`

/** The last chunks of the stream `s`. */
const last = (schema: string) => `(
    select number + count as count, bytes from ${schema}.workflow_chunk
    where job_id = s.job_id and name = s.name and generation = s.generation order by number desc limit 1
  )`

export const make = (schema: string) => ({
  /** Parameters: job, lease, name, attempt, now. */
  beginStream: `
  with held as materialized (
    select id from ${schema}.job where id = $1 and lease = $2 for key share
  ), begun as (
    insert into ${schema}.workflow_stream as s (job_id, started_at, generation, attempt, name)
    select id, ${instant("$5")}, 1, $4::smallint, $3 from held
    on conflict (job_id, name) do update
      set generation = s.generation + 1, attempt = excluded.attempt, started_at = excluded.started_at, outcome = null
    returning generation
  ), gone as (
    delete from ${schema}.workflow_chunk c using held where c.job_id = held.id and c.name = $3
  )
  select generation from begun`,

  /** Stores chunks. The lock on the job keeps the checked lease valid until the commit. Returns who holds the lease. */
  appendChunks: hot(`
  with given as materialized (
    select * from rows from (unnest($1::uuid[]), unnest($2::uuid[]), unnest($3::text[]), unnest($4::int[]), unnest($5::int[]),
      unnest($6::int[]), unnest($7::bigint[]), unnest($8::text[])) with ordinality
      as g(job_id, lease, name, generation, number, count, bytes, chunks, place)
  ), held as materialized (
    select j.id, j.lease from (select distinct job_id, lease from given order by job_id) g
    cross join lateral (
      select id, lease from ${schema}.job where id = g.job_id and lease = g.lease for key share
    ) j
  ), stored as (
    insert into ${schema}.workflow_chunk (job_id, bytes, generation, number, count, name, chunks)
    select g.job_id, g.bytes, g.generation, g.number, g.count, g.name, g.chunks
    from given g join held on held.id = g.job_id and held.lease = g.lease
    on conflict do nothing
  )
  select g.place::int, held.id is not null from given g
  left join held on held.id = g.job_id and held.lease = g.lease order by 1`),

  /**
   * Reads chunks at the positions `$1` to `$4`, and the states of their streams as of the same instant: one row per position
   * and row of chunks, at least one per position. A position of another generation than the current one is its start.
   */
  readChunks: hot(`
  select r.place::int, j.id is not null, j.finished_at is not null, s.generation, coalesce(w.outcome, s.outcome), w.exit, l.count,
    f.number, c.number, c.chunks
  from unnest($1::uuid[], $2::text[], $3::int[], $4::int[]) with ordinality as r(id, name, generation, number, place)
  left join lateral (select id, finished_at from ${schema}.job where id = r.id limit 1) j on true
  left join lateral (
    select * from ${schema}.workflow_stream where job_id = r.id and name = r.name limit 1
  ) s on true
  left join lateral ${result(schema)} w on true
  left join lateral ${last(schema)} l on true
  cross join lateral (
    select case when r.generation is not null and r.generation is distinct from s.generation then 0
      when r.number < 0 then greatest(0, coalesce(l.count, 0) + r.number) else r.number end as number
  ) f
  left join lateral (
    select number, bytes from ${schema}.workflow_chunk
    where job_id = s.job_id and name = s.name and generation = s.generation and number <= f.number and f.number < l.count
    order by number desc limit 1
  ) b on true
  left join lateral (
    select number, chunks from ${schema}.workflow_chunk
    where job_id = s.job_id and name = s.name and generation = s.generation
      and number >= b.number and bytes <= b.bytes + ${page.bytes}
    order by number limit ${page.rows}
  ) c on true
  where ${few("r.place")} order by 1, c.number`),

  /** The streams of the job `$1`. */
  listStreams: `
  select s.name, s.generation, ${millis("s.started_at")} as started_at, coalesce(w.outcome, s.outcome) as outcome,
    ${millis("w.ended_at")} as ended_at, ${millis("j.finished_at")} as finished_at, coalesce(l.count, 0) as count,
    coalesce(l.bytes, 0)::float8 as bytes
  from ${schema}.workflow_stream s join ${schema}.job j on j.id = s.job_id
  left join lateral ${result(schema)} w on true
  left join lateral ${last(schema)} l on true
  where s.job_id = $1 order by s.started_at, s.name`
})
