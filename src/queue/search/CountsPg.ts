import { Clock, Duration, Effect } from "effect"
import * as CoalescingCache from "../../core/CoalescingCache.js"
import { type Count, exact, sum } from "../../core/Count.js"
import { showableInstant } from "../../core/Storable.js"
import type { State } from "../../core/StoredJob.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { instant, millis } from "../../database/SqlInstant.js"
import type { BoundedQuery } from "./BoundedQuery.js"
import type { QueueCounts, SearchTooSlow } from "./JobSearch.js"

// Counts jobs without reading the whole table, in two steps.
//
// The first step runs at every count and reads a bounded number of rows. Unfinished jobs are counted per lane (queue and
// priority) through the claim index, due and scheduled ones apart; dead and cancelled jobs through their own indexes, per
// queue; done jobs through the index of finished jobs, newest first, which does not include the queue.
//
// Where the first step stops at its limit, the second one counts to the end: in less than its time limit, and then not
// again for twenty times its duration. Its numbers are therefore estimates, as old as that. If it takes too long, the
// numbers of the first step are lower bounds; for done jobs, the rest of the planner's row estimate is an estimate.

/** Maximum number of jobs counted one by one per lane or queue. */
const cap = 10_000

/**
 * Total number of unfinished jobs counted, shared by the lanes. Each lane is counted to a small limit first; those that
 * have more share the budget.
 */
const budget = 100_000
const perSmallLane = 1_000
const minPerLane = 100

/** Maximum number of lanes, and of queues with dead or cancelled jobs. */
const maxLanes = 1_000

/** Time limit of the second step. A million jobs take about a second. */
const countTimeout = Duration.seconds(2)

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

/** Counts the jobs on one side of a lane, due or later, up to its share. */
const side = (schema: string, compare: "<=" | ">") => `(
      select count(*) as found, count(*) filter (where f.pending and f.failed) as retrying,
        count(*) filter (where not f.pending) as running, min(f.run_at) filter (where f.pending) as first
      from (
        select status = 'pending' as pending, last_error is not null as failed, run_at from ${schema}.job j
        where finished_at is null and j.queue = lane.queue and j.priority = lane.priority
          and run_at ${compare} ${instant("$1")}
        order by j.run_at, j.id limit lane.share
      ) f
    )`

/** Counts the jobs of each lane up to its share, due and scheduled ones apart. */
const ofLanes = (schema: string, lanes: string) => `
    select lane.queue, lane.priority, lane.share, due.retrying + later.retrying as retrying,
      due.found - due.retrying - due.running as pending, later.found - later.retrying - later.running as scheduled,
      due.running + later.running as running, due.found >= lane.share as due_cut, later.found >= lane.share as later_cut,
      due.first as oldest
    from ${lanes} lane
    cross join lateral ${side(schema, "<=")} due
    cross join lateral ${side(schema, ">")} later`

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
      greatest(${minPerLane}, least(${perSmallLane}, ${budget} / count(*) over ()))::int as share
    from step
  ), tried as materialized (${ofLanes(schema, "lanes")}
  ), large as materialized (
    select queue, priority, greatest(share, least(${cap}, ${budget} / count(*) over ()))::int as share
    from tried where due_cut or later_cut
  ), open as (
    select * from tried where not (due_cut or later_cut)
    union all${ofLanes(schema, "large")}
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
      bool_or(due_cut) or (select count(*) from lanes) >= ${maxLanes} as due_cut,
      bool_or(later_cut) or (select count(*) from lanes) >= ${maxLanes} as later_cut,
      bool_or(dead_cut) as dead_cut, bool_or(cancelled_cut) as cancelled_cut,
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
  select counted.*, estimate.rows
  from counted left join estimate using (queue)
  order by queue`

/** The states that are counted together to the end, with the statement that does it. */
const rests: ReadonlyArray<{
  readonly states: ReadonlyArray<State>
  readonly minAge: Duration.DurationInput
  /** Whether the statement takes the current time. */
  readonly timed: boolean
  readonly text: (schema: string) => string
}> = [
  {
    states: ["scheduled", "retrying", "pending", "running"],
    minAge: "1 second",
    timed: true,
    text: (schema) => `
      select queue, case when status <> 'pending' then 'running' when last_error is not null then 'retrying'
        when run_at <= ${instant("$1")} then 'pending' else 'scheduled' end as state, count(*)::int as count
      from ${schema}.job where finished_at is null group by 1, 2`
  },
  {
    states: ["dead", "cancelled"],
    minAge: "1 second",
    timed: false,
    // Apart, because each has its own index.
    text: (schema) => `
      select queue, 'dead' as state, count(*)::int as count
      from ${schema}.job where dead_reason <> 'cancelled' group by queue
      union all
      select queue, 'cancelled', count(*)::int from ${schema}.job where dead_reason = 'cancelled' group by queue`
  },
  {
    states: ["done"],
    // Reads the whole table, and done jobs need no attention.
    minAge: "30 seconds",
    timed: false,
    text: (schema) => `
      select queue, 'done' as state, count(*)::int as count from ${schema}.job
      where finished_at is not null and dead_reason is null group by queue`
  }
]

/** A queue after the first step. */
export interface CountsRow extends Readonly<Record<State, number>> {
  readonly queue: string
  readonly due_cut: boolean
  readonly later_cut: boolean
  readonly done_cut: boolean
  readonly dead_cut: boolean
  readonly cancelled_cut: boolean
  /** The planner's estimate of all jobs of the queue. */
  readonly rows: number | null
  readonly oldest: number | null
}

interface RestRow {
  readonly queue: string
  readonly state: State
  readonly count: number
}

/** The numbers of the second step by state and queue, for the states that it counted. */
export type Rests = ReadonlyMap<State, ReadonlyMap<string, number>>

const isCut = (row: CountsRow, state: State): boolean => {
  switch (state) {
    case "scheduled":
      return row.later_cut
    case "retrying":
      return row.due_cut || row.later_cut
    case "pending":
    case "running":
      return row.due_cut
    default:
      return row[`${state}_cut`]
  }
}

const countOf = (row: CountsRow, state: State, rests: Rests): Count => {
  const counted = row[state]
  if (!isCut(row, state)) return exact(counted)
  const value = rests.get(state)?.get(row.queue) ?? 0
  // Below what was counted now, the older number says nothing about the rest.
  return rests.has(state) && value >= counted ? { value, kind: "estimate" } : { value: counted, kind: "atLeast" }
}

/** Makes the counts of a queue from both steps. */
export const combine = (row: CountsRow, rests: Rests, now: number): QueueCounts => {
  const of = (state: State) => countOf(row, state, rests)
  const others = {
    scheduled: of("scheduled"),
    retrying: of("retrying"),
    pending: of("pending"),
    running: of("running"),
    dead: of("dead"),
    cancelled: of("cancelled")
  }
  const other = sum(Object.values(others))
  const done = of("done")
  const rest = Math.round(row.rows ?? 0) - other.value
  const oldestDueAt = row.oldest === null ? undefined : showableInstant(row.oldest)
  const isEstimated = done.kind === "atLeast" && other.kind !== "atLeast" && rest > done.value
  return {
    queue: row.queue,
    counts: { ...others, done: isEstimated ? { value: rest, kind: "estimate" } : done },
    oldestDueAge: oldestDueAt === undefined ? undefined : now - oldestDueAt,
    oldestDueAt
  }
}

/** Counts jobs by queue and state. The cost per minute does not grow with the table. */
export const make = (
  database: typeof Database.Service,
  bounded: typeof BoundedQuery.Service
): Effect.Effect<Effect.Effect<ReadonlyArray<QueueCounts>, SearchTooSlow | DatabaseError>> =>
  Effect.gen(function* () {
    const { schema, sql } = database
    const text = statement(schema)

    const queryOf = (text: string, timed: boolean) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        bounded(sql.unsafe<RestRow>(text, timed ? [now] : []), { timeout: countTimeout })
      ).pipe(Effect.catchTag("SearchTooSlow", () => Effect.succeed(undefined)))

    const parts = yield* Effect.forEach(rests, ({ minAge, states, text, timed }) =>
      Effect.map(CoalescingCache.refreshed(queryOf(text(schema), timed), minAge), (read) => ({ read, states }))
    )

    return Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* bounded(sql.unsafe<CountsRow>(text, [now]))
      const found = new Map<State, ReadonlyMap<string, number>>()
      for (const { read, states } of parts) {
        if (!rows.some((row) => states.some((state) => isCut(row, state)))) continue
        const counted = (yield* read).value
        if (counted === undefined) continue
        for (const state of states) {
          const ofState = counted.filter((row) => row.state === state)
          found.set(state, new Map(ofState.map(({ count, queue }) => [queue, count])))
        }
      }
      return rows.map((row) => combine(row, found, now))
    })
  })
