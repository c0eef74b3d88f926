import { instant, millis } from "../../database/SqlInstant.js"
import { waitingKinds } from "./Execution.js"
import { openWait as open, waits } from "./JournalSql.js"

// SQL statements that list and count executions.

export const executionColumns = (
  schema: string
): string => `j.id, j.dedupe_key as execution, j.kind as workflow, j.version,
  j.queue, j.status, coalesce(j.dead_reason, j.dying) as dead_reason, j.woken, j.payload, j.result, j.last_error, j.attempt, j.crash_count,
  ${millis("j.run_at")} as run_at, ${millis("j.created_at")} as created_at, ${millis("j.updated_at")} as updated_at,
  ${millis("j.finished_at")} as finished_at, j.cancel_requested_at is not null as cancelled,
  (select jsonb_build_array(l.continued, l.release) from ${schema}.workflow_lifetime l where l.job_id = j.id) as lifetime,
  (select coalesce(jsonb_object_agg(t.name, t.value), '{}') from ${schema}.workflow_tag t where t.job_id = j.id) as tags,
  ${waits(schema, "j.dedupe_key", open)} as waits`

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
 * after, and before.
 */
const selected = (schema: string) => `j.woken is not null and ($1::text is null or j.kind = $1)
    and ($2::text is null or starts_with(j.dedupe_key, $2)) and ($4::uuid is null or j.id < $4)
    and ($7::uuid is null or j.id >= $7) and ($8::float8 is null or j.created_at >= ${instant("$8")})
    and ($9::float8 is null or j.created_at < ${instant("$9")}) and ($3::text is null or ${stateCase(schema)} = $3)`

const untagged = (schema: string) => `${schema}.job j where ${selected(schema)}`

/**
 * The same for executions with the tag `$10` of the value `$11` and all `$13` tags of `$12`. The index of the tags gives them
 * newest first, and each is looked up by its id, whatever the size of the job table.
 */
const tagged = (schema: string) => `${schema}.workflow_tag t
  cross join lateral (select * from ${schema}.job where id = t.job_id limit 1) j
  where t.name = $10 and t.value = $11 and ($4::uuid is null or t.job_id < $4) and ($7::uuid is null or t.job_id >= $7)
    and ${selected(schema)} and (
      select count(*) from ${schema}.workflow_tag o where o.job_id = t.job_id and o.value = $12::jsonb->>o.name) = $13::int`

const counting = (source: string) => `
  select count(*)::int as count from (select from ${source} limit $5::int) counted`

export const make = (schema: string) => ({
  /** Executions, newest first. */
  listExecutions: `
  select ${executionColumns(schema)} from ${untagged(schema)} order by j.id desc limit $5::int`,

  listTagged: `
  select ${executionColumns(schema)} from ${tagged(schema)} order by t.job_id desc limit $5::int`,

  countExecutions: counting(untagged(schema)),

  countTagged: counting(tagged(schema)),

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
