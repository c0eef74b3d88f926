import { instant, millis } from "../../database/SqlInstant.js"
import { resultColumn } from "../StoredJobRow.js"
import { maxSortedJobs } from "../search/JobSort.js"
import { maxCountedParts, waitingKinds } from "./Execution.js"
import { type ExecutionSort, executionSortFields, maxStateCounts } from "./ExecutionPage.js"
import { openWait as open, waits } from "./JournalSql.js"

// SQL statements that list and count executions.

export const executionColumns = (
  schema: string
): string => `j.id, j.dedupe_key as execution, j.kind as workflow, j.version,
  j.queue, j.status, coalesce(j.dead_reason, j.dying) as dead_reason, j.woken, j.payload, ${resultColumn}, j.last_error, j.attempt, j.crash_count,
  ${millis("j.run_at")} as run_at, ${millis("j.created_at")} as created_at, ${millis("j.updated_at")} as updated_at,
  ${millis("j.finished_at")} as finished_at, j.cancel_requested_at is not null as cancelled,
  (select jsonb_build_array(l.continued, l.release) from ${schema}.workflow_lifetime l where l.job_id = j.id) as lifetime,
  (select coalesce(jsonb_object_agg(t.name, t.value), '{}') from ${schema}.workflow_tag t where t.job_id = j.id) as tags,
  ${waits(schema, "j.dedupe_key", open)} as waits, ${progressColumns(schema)}`

/** Counts of steps and children, and the failed step. Each child is looked up by its id, whatever the size of the job table. */
const progressColumns = (schema: string) => `
  (select count(*)::int from (select from ${schema}.workflow_step s where s.job_id = j.id and s.outcome = 'done'
    and s.reopened_at is null limit ${maxCountedParts}) done) as steps_done,
  case when j.dying is not null or (j.status = 'dead' and j.dead_reason <> 'cancelled') then (
    select s.name from ${schema}.workflow_step s where s.job_id = j.id and s.outcome = 'failed' and s.reopened_at is null
    order by s.sequence desc, s.attempt desc limit 1) end as failed_step,
  (select case when count(*) > 0 then jsonb_build_array(count(*) filter (where k.status = 'done'),
      count(*) filter (where k.status = 'dead' and k.dead_reason <> 'cancelled'),
      count(*) filter (where k.status = 'dead' and k.dead_reason = 'cancelled'),
      count(*) filter (where k.status in ('pending', 'running')), count(*) filter (where k.status is null)) end
    from (select c.child from ${schema}.workflow_child c where c.parent = j.dedupe_key limit ${maxCountedParts + 1}) c
    left join lateral (select status, dead_reason from ${schema}.job where id = c.child limit 1) k on true) as child_counts`

/** The state of an execution, as `executionStateOf` computes it. `$6` is the current time. */
const stateCase = (schema: string) => {
  const waitsFor = (kinds: string) =>
    `exists (select from ${schema}.workflow_deferred d where d.execution = j.dedupe_key${open} and d.kind in (${kinds}))`
  return `case when j.status = 'dead' then case when j.dead_reason = 'cancelled' then 'cancelled' else 'failed' end
    when j.status <> 'pending' then j.status when ${waitsFor("'changed'")} then 'changed'
    when j.cancel_requested_at is not null then 'cancelling' when j.dying is not null then 'undoing' when j.run_at <= ${instant("$6")} then 'pending'
    when j.woken = 0 then 'scheduled' when ${waitsFor(waitingKinds.map((kind) => `'${kind}'`).join(", "))} then 'waiting' else 'sleeping' end`
}

/**
 * Parameters: workflow, prefix of the id, state, id of the last one seen, limit, now, lowest id, times of the start: at or
 * after, and before; whether to leave out executions that others started or wait for.
 */
const selected = (schema: string) => `j.woken is not null and ($1::text is null or j.kind = $1)
    and ($2::text is null or starts_with(j.dedupe_key, $2)) and ($4::uuid is null or j.id < $4)
    and ($7::uuid is null or j.id >= $7) and ($8::float8 is null or j.created_at >= ${instant("$8")})
    and ($9::float8 is null or j.created_at < ${instant("$9")}) and ($3::text is null or ${stateCase(schema)} = $3)
    and ($10::boolean is not true or not exists (select from ${schema}.workflow_child c where c.child = j.id))`

const untagged = (schema: string) => `${schema}.job j where ${selected(schema)}`

/**
 * The same for executions with the tag `$11` of the value `$12` and all `$14` tags of `$13`. The index of the tags gives them
 * newest first, and each is looked up by its id, whatever the size of the job table.
 */
const tagged = (schema: string) => `${schema}.workflow_tag t
  cross join lateral (select * from ${schema}.job where id = t.job_id limit 1) j
  where t.name = $11 and t.value = $12 and ($4::uuid is null or t.job_id < $4) and ($7::uuid is null or t.job_id >= $7)
    and ${selected(schema)} and (
      select count(*) from ${schema}.workflow_tag o where o.job_id = t.job_id and o.value = $13::jsonb->>o.name) = $14::int`

const counting = (source: string) => `
  select count(*)::int as count from (select from ${source} limit $5::int) counted`

const countingStates = (schema: string, source: string) => `
  select s.state, count(*)::int as count from (
    select ${stateCase(schema)} as state from ${source} order by j.id desc limit coalesce($5::int, ${maxStateCounts + 1})
  ) s group by s.state`

/** The value that a list is sorted by, in milliseconds. `$6` is the current time. */
const sortValues: Readonly<Record<ExecutionSort["by"], string>> = {
  duration: `${millis(`coalesce(j.finished_at, ${instant("$6")})`)} - ${millis("j.created_at")}`,
  finished: millis("j.finished_at")
}

/**
 * The newest executions of a source, sorted. `after` numbers the parameters that name the end of the page before: whether there is
 * one, its value, its id, and the newest execution of the first page. Executions without a value are last.
 */
const sorted = (schema: string, source: string, { by, descending }: ExecutionSort, after: number) => {
  const [direction, beyond] = descending ? ["desc", "<"] : ["asc", ">"]
  const [isNext, value, id, newest] = [0, 1, 2, 3].map((place) => `$${after + place}`)
  const later = `c.id ${beyond} ${id}::uuid`
  const order = `order by c.place ${direction} nulls last, c.id ${direction}`
  return `
  with candidates as materialized (
    select j.id, (${sortValues[by]})::float8 as place from ${source} and (${newest}::uuid is null or j.id <= ${newest})
    order by j.id desc limit ${maxSortedJobs}
  )
  select ${executionColumns(schema)}, c.place, (select count(*)::int from candidates) as looked,
    (select id from candidates order by id desc limit 1) as newest
  from (
    select * from candidates c where ${isNext}::boolean is not true
      or (${value}::float8 is null and c.place is null and ${later})
      or (${value}::float8 is not null and (c.place is null or c.place ${beyond} ${value}
        or (c.place = ${value} and ${later})))
    ${order} limit $5::int
  ) c join ${schema}.job j on j.id = c.id ${order}`
}

/** The statements of a sorted list, by `sortedName`. */
const allSorted = (schema: string) =>
  Object.fromEntries(
    executionSortFields.flatMap((by) =>
      [true, false].flatMap((descending) => [
        [sortedName({ by, descending }, false), sorted(schema, untagged(schema), { by, descending }, 11)],
        [sortedName({ by, descending }, true), sorted(schema, tagged(schema), { by, descending }, 15)]
      ])
    )
  ) as Readonly<Record<SortedName, string>>

type SortedName = `listBy_${ExecutionSort["by"]}_${boolean}_${boolean}`

/** The name of the statement for an order, and for a filter by tags. */
export const sortedName = ({ by, descending }: ExecutionSort, isTagged: boolean): SortedName =>
  `listBy_${by}_${descending}_${isTagged}`

export const make = (schema: string) => ({
  ...allSorted(schema),

  /** Executions, newest first. */
  listExecutions: `
  select ${executionColumns(schema)} from ${untagged(schema)} order by j.id desc limit $5::int`,

  listTagged: `
  select ${executionColumns(schema)} from ${tagged(schema)} order by t.job_id desc limit $5::int`,

  countExecutions: counting(untagged(schema)),

  countTagged: counting(tagged(schema)),

  countStates: countingStates(schema, untagged(schema)),

  countTaggedStates: countingStates(schema, tagged(schema)),

  /** Counts suspended executions by state, at most `$2`. `run_at > created_at` selects the index `job_waiting`. */
  countSuspended: `
  select count(*) filter (where s.changed)::int as changed,
    count(*) filter (where s.waiting and not s.changed)::int as waiting,
    count(*) filter (where not s.waiting and not s.changed)::int as sleeping
  from (
    select w.kinds && '{changed}' as changed, w.kinds && '{${waitingKinds.join(",")}}' as waiting
    from (
      select j.dedupe_key from ${schema}.job j
      where j.finished_at is null and j.run_at > j.created_at and j.woken > 0 and j.lease is null
        and j.run_at > ${instant("$1")} and j.cancel_requested_at is null
      limit $2::int
    ) j cross join lateral (
      select array(select d.kind from ${schema}.workflow_deferred d
        where d.execution = j.dedupe_key and d.waiting and d.completed_at is null) as kinds
    ) w
  ) s`
})
