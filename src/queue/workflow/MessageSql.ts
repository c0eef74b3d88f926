import { instant } from "../../database/SqlInstant.js"
import { hot } from "../../database/Statements.js"
import { stepColumns } from "./JournalSql.js"

// SQL of asks, and of values that the code has set. An ask locks the job first: if the execution is being claimed or
// suspended, it waits for that, so that one of them sees the other. The rows of asks are no waits, so a suspension does not
// lock them.

export const make = (schema: string) => ({
  /** The steps that have set a value, in order. Undos may set values too. */
  setValues: `
  select ${stepColumns} from ${schema}.workflow_step s
  where s.job_id = $1 and s.kind in ('set', 'undo') and s.exit ? 'set' order by s.sequence`,

  /** Stores the ask `$2` with the JSON `$3` for the execution of job `$1`, and wakes it. No rows if it has ended. */
  storeAsk: hot(`
  with target as materialized (
    select id, dedupe_key from ${schema}.job where id = $1 and finished_at is null for no key update
  ), stored as (
    insert into ${schema}.workflow_deferred (execution, kind, name, created_at, exit)
    select dedupe_key, 'ask', $2, ${instant("$4")}, $3::jsonb from target
    on conflict do nothing
  )
  -- An execution that has never run reads its asks when it does.
  update ${schema}.job j set woken = case when j.woken > 0 or j.lease is not null then j.woken + 1 else j.woken end,
    run_at = case when j.woken > 0 and j.lease is null then least(j.run_at, ${instant("$4")}) else j.run_at end
  from target where j.id = target.id
  returning j.queue`),

  /** Stores the answer `$4` to the ask `$3`, unless it has one. No rows if the run `$1` does not hold the lease `$2`. */
  storeAnswer: hot(`
  with held as materialized (
    select dedupe_key from ${schema}.job where id = $1 and lease = $2 for key share
  ), answered as (
    update ${schema}.workflow_deferred d set completed_at = ${instant("$5")}, exit = d.exit || jsonb_build_object('answer', $4::jsonb)
    from held where d.execution = held.dedupe_key and d.kind = 'ask' and d.name = $3 and d.completed_at is null
  )
  select dedupe_key from held`),

  /** Of the asks `$2` of the jobs `$1`: those that have an answer, and those that were deleted or whose execution has ended. */
  endedAsks: hot(`
  select a.place::int, d.exit->'answer' as answer
  from unnest($1::uuid[], $2::text[]) with ordinality as a(job, name, place)
  left join ${schema}.job j on j.id = a.job
  left join ${schema}.workflow_deferred d on d.execution = j.dedupe_key and d.kind = 'ask' and d.name = a.name
  where d.completed_at is not null or d.name is null or j.finished_at is not null`)
})
