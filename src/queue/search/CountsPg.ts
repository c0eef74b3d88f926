import { Clock, Effect } from "effect"
import { showableInstant } from "../../core/Storable.js"
import type { State } from "../../core/StoredJob.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { instant, millis } from "../../database/SqlInstant.js"
import type { BoundedQuery } from "./BoundedQuery.js"
import type { QueueCounts, SearchTooSlow } from "./JobSearch.js"

// Counts jobs without reading the whole table. Unfinished jobs are counted per lane (queue and priority) through the
// claim index, due and scheduled ones each up to a cap; dead and cancelled jobs through their own indexes, up to a cap
// per queue; done jobs through the index of finished jobs, newest first. That index does not include the queue: beyond the cap, the
// rest of the planner's row estimate for a queue is counted as done. Counts that are not exact are marked.

/** Maximum number of jobs counted one by one per category. */
const cap = 10_000

/** Total number of unfinished jobs counted, shared by the lanes; each lane gets a minimum. */
const budget = 50_000
const minPerLane = 100

/** Maximum number of lanes, and of queues with dead or cancelled jobs. */
const maxLanes = 1_000

/** Counts the jobs of one index per queue: dead or cancelled ones. */
const ended = (schema: string, name: string, condition: string) => `
  ), ${name}_queue(queue, number) as (
    (select queue, 1 from ${schema}.job where ${condition} order by queue limit 1)
    union all
    select next.queue, ${name}_queue.number + 1
    from ${name}_queue cross join lateral (
      select j.queue from ${schema}.job j
      where j.${condition} and j.queue > ${name}_queue.queue order by j.queue limit 1
    ) next
    where ${name}_queue.number < ${maxLanes}
  ), ${name} as (
    select ${name}_queue.queue, count(*) as count, count(*) >= ${cap} as cut
    from ${name}_queue cross join lateral (
      select 1 from ${schema}.job j where j.${condition} and j.queue = ${name}_queue.queue limit ${cap}
    ) f
    group by ${name}_queue.queue`

const statement = (schema: string) => `
  with recursive step(queue, priority, number) as (
    (select queue, priority, 1 from ${schema}.job where finished_at is null order by queue, priority limit 1)
    union all
    -- Each step skips all jobs of one lane.
    select next.queue, next.priority, step.number + 1
    from step cross join lateral (
      select j.queue, j.priority from ${schema}.job j
      where j.finished_at is null and (j.queue, j.priority) > (step.queue, step.priority)
      order by j.queue, j.priority limit 1
    ) next
    where step.number < ${maxLanes}
  ), lanes as materialized (
    select queue, priority,
      greatest(${minPerLane}, least(${cap}, ${budget} / count(*) over ()))::int as share,
      count(*) over () >= ${maxLanes} as cut
    from step
  ), open as (
    select lanes.queue,
      count(*) filter (where f.pending and f.failed) as retrying,
      count(*) filter (where f.pending and not f.failed and f.due) as pending,
      count(*) filter (where f.pending and not f.failed and not f.due) as scheduled,
      count(*) filter (where not f.pending) as running,
      count(*) filter (where f.due) >= share or lanes.cut as due_cut,
      count(*) filter (where not f.due) >= share or lanes.cut as later_cut,
      min(f.run_at) filter (where f.pending and f.due) as oldest
    from lanes cross join lateral (
      (select status = 'pending' as pending, last_error is not null as failed, run_at, true as due
      from ${schema}.job j
      where finished_at is null and j.queue = lanes.queue and j.priority = lanes.priority
        and run_at <= ${instant("$1")}
      order by j.run_at, j.id limit lanes.share)
      union all
      (select status = 'pending', last_error is not null, run_at, false
      from ${schema}.job j
      where finished_at is null and j.queue = lanes.queue and j.priority = lanes.priority
        and run_at > ${instant("$1")}
      order by j.run_at, j.id limit lanes.share)
    ) f
    group by lanes.queue, lanes.priority, lanes.share, lanes.cut
${ended(schema, "dead", "dead_reason <> 'cancelled'")}${ended(schema, "cancelled", "dead_reason = 'cancelled'")}
  ), finished as (
    select queue, dead_reason is null as done from ${schema}.job
    where finished_at is not null order by finished_at desc limit ${cap}
  ), estimate as (
    select common.queue, common.share * greatest(c.reltuples, 0) as rows
    from pg_class c
    join pg_stats s on s.schemaname = '${schema}' and s.tablename = 'job' and s.attname = 'queue'
    cross join lateral unnest(s.most_common_vals::text::text[], s.most_common_freqs) as common(queue, share)
    where c.oid = '${schema}.job'::regclass
  ), counted as (
    select queue, sum(scheduled)::int as scheduled, sum(retrying)::int as retrying, sum(pending)::int as pending,
      sum(running)::int as running, sum(done)::int as done, sum(dead)::int as dead, sum(cancelled)::int as cancelled,
      bool_or(due_cut) as due_cut, bool_or(later_cut) as later_cut, bool_or(dead_cut) as dead_cut,
      bool_or(cancelled_cut) as cancelled_cut,
      (select count(*) from finished) >= ${cap} as done_cut,
      ${millis("min(oldest)")} as oldest
    from (
      select queue, scheduled, retrying, pending, running, 0 as done, 0 as dead, 0 as cancelled, due_cut, later_cut,
        false as dead_cut, false as cancelled_cut, oldest from open
      union all
      select queue, 0, 0, 0, 0, count(*) filter (where done), 0, 0, false, false, false, false, null
      from finished group by queue
      union all
      select queue, 0, 0, 0, 0, 0, count, 0, false, false, cut, false, null from dead
      union all
      select queue, 0, 0, 0, 0, 0, 0, count, false, false, false, cut, null from cancelled
      union all
      -- A queue may have only done jobs, all older than those counted above.
      select queue, 0, 0, 0, 0, 0, 0, 0, false, false, false, false, null from estimate
      where (select count(*) from finished) >= ${cap}
    ) parts
    group by queue
  )
  select queue, scheduled, retrying, pending, running, dead, cancelled, due_cut, later_cut, dead_cut, cancelled_cut,
    done_cut, oldest,
    case when done_cut and not (due_cut or later_cut or dead_cut or cancelled_cut)
    then greatest(done, round(estimate.rows) - scheduled - retrying - pending - running - dead - cancelled)::int
    else done end as done
  from counted left join estimate using (queue)
  order by queue`

interface CountsRow extends Readonly<Record<State, number>> {
  readonly queue: string
  readonly due_cut: boolean
  readonly later_cut: boolean
  readonly done_cut: boolean
  readonly dead_cut: boolean
  readonly cancelled_cut: boolean
  readonly oldest: number | null
}

const toCounts = (row: CountsRow, now: number): QueueCounts => {
  const { cancelled, dead, done, pending, queue, retrying, running, scheduled } = row
  const cut: Readonly<Record<State, boolean>> = {
    scheduled: row.later_cut,
    retrying: row.due_cut || row.later_cut,
    pending: row.due_cut,
    running: row.due_cut,
    done: row.done_cut,
    dead: row.dead_cut,
    cancelled: row.cancelled_cut
  }
  return {
    queue,
    counts: { scheduled, retrying, pending, running, done, dead, cancelled },
    approximate: (Object.keys(cut) as ReadonlyArray<State>).filter((state) => cut[state]),
    oldestDueAge: row.oldest === null ? undefined : now - showableInstant(row.oldest)
  }
}

/** Counts jobs by queue and state, at a cost that does not grow with the table. */
export const make = (
  database: typeof Database.Service,
  bounded: typeof BoundedQuery.Service
): Effect.Effect<ReadonlyArray<QueueCounts>, SearchTooSlow | DatabaseError> => {
  const { schema, sql } = database
  const text = statement(schema)
  return Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const rows = yield* bounded(sql.unsafe<CountsRow>(text, [now]))
    return rows.map((row) => toCounts(row, now))
  })
}
