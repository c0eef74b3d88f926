import { few, hot, lockWait } from "../../database/Statements.js"
import { keptAttempts } from "./JobLogs.js"

/** What earlier runs of the attempt have logged. The row `l` may be of one of them. */
const earlier = "case when l.lease = excluded.lease then l.earlier else concat_ws(E'\\n', l.earlier, l.lines) end"

/** The last of these lines that fit beside the lines of the run, within `$6` lines and `$7` bytes. */
const fitting = `(
      select string_agg(line, E'\\n' order by place) from (
        select line, place, row_number() over last as lines, sum(octet_length(line) + 1) over last as bytes
        from unnest(string_to_array(${earlier}, E'\\n')) with ordinality as known(line, place)
        window last as (order by place desc)
      ) counted
      where lines <= $6::int - cardinality(string_to_array(excluded.lines, E'\\n'))
        and bytes <= $7::int - octet_length(excluded.lines) - 1
    )`

export const make = (schema: string) => ({
  /**
   * Stores what runs have logged, while they hold their lease. In the order of the ids, because two statements may write the
   * same rows. The number of lines orders the writes of a run. The lock keeps a purge from deleting a job before its log is
   * written, and conflicts with no other statement of a job that runs.
   */
  writeLogs: hot(`
  with ${lockWait("$8::text")}, held as materialized (
    select g.* from lock_wait cross join unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::int[], $5::text[]) with ordinality
      as g(id, lease, attempt, count, lines, place)
    join ${schema}.job j on j.id = g.id and j.lease = g.lease
    where ${few("g.place")} for key share of j
  ), gone as (
    delete from ${schema}.job_log l using held where l.job_id = held.id and l.attempt <= held.attempt - ${keptAttempts}
  )
  insert into ${schema}.job_log as l (job_id, lease, attempt, count, total, lines)
  select id, lease, attempt, count, count, lines from held order by id
  on conflict (job_id, attempt) do update set
    lease = excluded.lease,
    count = excluded.count,
    total = l.total - case when l.lease = excluded.lease then l.count else 0 end + excluded.count,
    lines = excluded.lines,
    earlier = case when l.lease = excluded.lease and l.earlier is null then null else ${fitting} end
  where l.lease <> excluded.lease or l.count < excluded.count`),

  /** The logs of the job `$1`. */
  readLogs: `
  select attempt, total, concat_ws(E'\\n', earlier, lines) as lines from ${schema}.job_log where job_id = $1 order by attempt`
})
