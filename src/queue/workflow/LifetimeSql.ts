import { instant, span } from "../../database/SqlInstant.js"
import { keepAnswers } from "./Asks.js"
import * as StreamSql from "./StreamSql.js"

// Statements about the whole life of an execution: new journals under the same id, and the release that it is pinned to.

/** A journal with this many steps is long. The index `workflow_step_long` has the same number. */
export const longJournal = 5_000

/** How long a new journal keeps the answers of the one before: their callers may not have read them. */
const answersKept = span(String(keepAnswers))

/** The signal of a value, the row `d`, and the number of the value. */
const signal = "case d.kind when 'signal' then d.name when 'value' then d.signal end"
const number = "case d.kind when 'signal' then 1 when 'value' then substring(d.name from '[0-9]+$')::int end"

/** Whether the row `d` is the wait of the job `j` for an event. A new journal has its own waits, under other names. */
const isEventWait = (schema: string) => `exists (
        select from ${schema}.event_wait w where w.execution = d.execution and w.name = ${signal} and w.job = j.id)`

/** Whether the code of the job `j` has received the first value of the signal of `d`, with `step.waitFor`: not if that timed out. */
const isReceived = (schema: string) => `exists (
        select from ${schema}.workflow_step s where s.job_id = j.id and s.kind in ('signal', 'undo')
          and s.exit->'timedOut' is null and (s.name = ${signal} or s.name like 'undo:%' and right(s.name, length(${signal}) + 1) = '/' || ${signal}))`

/** Whether a step of the job `j` has taken a value of the signal of `d`, with `step.next`. */
const isTaken = (schema: string, which = "") => `exists (
        select from ${schema}.workflow_step s where s.job_id = j.id and s.kind in ('message', 'undo')
          and s.exit->'taken'->>'signal' = ${signal}${which})`

/**
 * Whether the code of the job `j` can still receive the row `d`, a value of a signal or an ask, or the caller of the ask may
 * still read its answer. `$2` is the time.
 */
const isOpen = (schema: string) => `coalesce(case
      when d.kind in ('signal', 'value') then d.completed_at is not null and not ${isEventWait(schema)}
        and not ${isTaken(schema, ` and (s.exit->'taken'->>'number')::int = ${number}`)}
        and (not ${isReceived(schema)} or ${isTaken(schema)})
      when d.kind = 'ask' and d.completed_at is not null then d.completed_at > ${instant("$2")} - ${answersKept}
      when d.kind = 'ask' then not exists (
        select from ${schema}.workflow_step s where s.job_id = j.id and s.kind = 'ask' and s.name = 'ask:' || d.name)
    end, false)`

export const make = (schema: string) => ({
  /**
   * Returns those of the jobs `$1`, held under the leases `$2`, that may continue with a new journal, and deletes their links
   * to children. Locks their waits for events, which a publisher locks before it completes the signals. The first statement of
   * a transaction, in the order of the locks.
   */
  unlinkChildren: `
  with held as materialized (
    select j.id, j.dedupe_key from unnest($1::uuid[], $2::uuid[]) as e(id, lease) cross join lateral (
      select id, dedupe_key from ${schema}.job
      where id = e.id and lease = e.lease and cancel_requested_at is null and dying is null for key share
    ) j
  ), links as materialized (
    select l.parent, l.name, l.position from ${schema}.workflow_child l
    where l.parent = any(array(select dedupe_key from held)) order by 1, 2, 3 for update
  ), unlinked as (
    delete from ${schema}.workflow_child l using links
    where l.parent = links.parent and l.name = links.name and l.position = links.position
  ), events as materialized (
    select from ${schema}.event_wait w join held on held.id = w.job and held.dedupe_key = w.execution
    order by w.execution, w.name for update of w
  )
  -- The condition is always true: it makes PostgreSQL read and lock the events.
  select id from held where (select count(*) from events) >= 0`,

  /**
   * Deletes the waits of the jobs `$1` at the time `$2`, except for values and asks that their code has not received, and new
   * answers. Locks all signals, so that no value is added before the values are numbered again. Events that their code has not
   * received end waits of the next journal.
   */
  forgetWaits: `
  with waits as materialized (
    select d.execution, d.kind, d.name, ${isOpen(schema)} as open
    from ${schema}.job j join ${schema}.workflow_deferred d on d.execution = j.dedupe_key
    where j.id = any($1::uuid[]) and (d.kind = 'signal' or not ${isOpen(schema)})
    order by 1, 2, 3 for update of d
  ), events as (
    delete from ${schema}.event_wait w using ${schema}.job j
    where j.id = any($1::uuid[]) and w.execution = j.dedupe_key and w.job = j.id and not exists (
      select from ${schema}.workflow_step s where s.job_id = j.id and s.name = w.name and s.kind in ('signal', 'undo'))
  )
  delete from ${schema}.workflow_deferred d using waits
  where d.execution = waits.execution and d.kind = waits.kind and d.name = waits.name and not waits.open`,

  /** Numbers the values that are left of the jobs `$1` from 1, under names that no other row has. The next statement moves them. */
  numberValues: `
  with numbered as materialized (
    select d.execution, d.kind, d.name, d.arrived, ${signal} as signal,
      row_number() over (partition by d.execution, ${signal} order by ${number}) as place,
      count(*) over (partition by d.execution, ${signal}) as total,
      sum(octet_length(d.exit::text)) over (partition by d.execution, ${signal}) - octet_length(d.exit::text) as others
    from ${schema}.job j join ${schema}.workflow_deferred d on d.execution = j.dedupe_key
    where j.id = any($1::uuid[]) and d.kind in ('signal', 'value')
  )
  update ${schema}.workflow_deferred d set kind = 'value', name = chr(1) || n.signal || '#' || n.place, signal = n.signal,
    waiting = false, due_at = null, arrived = case when n.place = 1 and n.total > 1 then n.total end,
    arrived_bytes = case when n.place = 1 and n.total > 1 then n.others end
  from numbered n
  where d.execution = n.execution and d.kind = n.kind and d.name = n.name
    and (n.total > 1 or n.kind = 'value' or n.arrived is not null or d.waiting or d.due_at is not null)`,

  moveValues: `
  update ${schema}.workflow_deferred d set
    kind = case when d.name = chr(1) || d.signal || '#1' then 'signal' else 'value' end,
    name = case when d.name = chr(1) || d.signal || '#1' then d.signal else substr(d.name, 2) end
  from ${schema}.job j
  where j.id = any($1::uuid[]) and d.execution = j.dedupe_key and d.kind = 'value' and starts_with(d.name, chr(1))`,

  /** Gives the jobs `$1` the payloads `$2` with the versions `$3`, deletes their steps and pins, and counts. Their streams have ended. */
  renew: `
  with given as materialized (
    select * from rows from (unnest($1::uuid[]), jsonb_array_elements($2::jsonb), unnest($3::int[])) as g(id, payload, version)
  ), streams as (
    update ${schema}.workflow_stream s
    set outcome = coalesce((select w.outcome from ${StreamSql.result(schema)} w), s.outcome, 'interrupted')
    where s.job_id = any($1::uuid[])
  ), steps as (
    delete from ${schema}.workflow_step where job_id = any($1::uuid[])
  ), counted as (
    insert into ${schema}.workflow_lifetime as l (job_id, continued) select id, 1 from given
    on conflict (job_id) do update set continued = l.continued + 1, release = null, parked = null
  )
  update ${schema}.job j set payload = given.payload, version = given.version, crash_count = 0, cut = null, progress = null
  from given where j.id = given.id`,

  /** Pins the job `$1` to the release `$3` if it is held under the lease `$2`, unless it is pinned. */
  pin: `
  with held as materialized (select id from ${schema}.job where id = $1 and lease = $2 for key share)
  insert into ${schema}.workflow_lifetime as l (job_id, release) select id, $3 from held
  on conflict (job_id) do update set release = coalesce(l.release, excluded.release)
  returning l.release`,

  /**
   * Leaves the jobs `$1`, which have been returned to the queue, to the release that they are pinned to. Those that were
   * unpinned meanwhile are due now, at `$2`.
   */
  park: `
  with pinned as materialized (
    select l.job_id from ${schema}.workflow_lifetime l where l.job_id = any($1::uuid[]) and l.release is not null
    order by 1 for update
  ), parked as (
    update ${schema}.workflow_lifetime l set parked = j.woken from pinned join ${schema}.job j on j.id = pinned.job_id
    where l.job_id = pinned.job_id and j.lease is null
  )
  update ${schema}.job j set run_at = least(j.run_at, ${instant("$2")})
  where j.id = any($1::uuid[]) and j.lease is null and j.finished_at is null
    and not exists (select from pinned where pinned.job_id = j.id)`,

  /** Unpins the job `$1`, or all that are pinned to the release `$2`. Those that were parked are due now. */
  unpin: `
  with chosen as materialized (
    select l.job_id, l.parked from ${schema}.workflow_lifetime l join ${schema}.job j on j.id = l.job_id
    where l.release is not null and j.finished_at is null and (l.job_id = $1::uuid or $1::uuid is null and l.release = $2::text)
    order by 1 for update of l
  ), unpinned as (
    update ${schema}.workflow_lifetime l set release = null, parked = null from chosen where l.job_id = chosen.job_id
  ), woke as (
    update ${schema}.job j set run_at = least(j.run_at, ${instant("$3")}), woken = j.woken + 1
    from chosen where j.id = chosen.job_id and j.woken = chosen.parked and j.lease is null
    returning j.id, j.queue
  )
  select chosen.job_id as id, woke.queue from chosen left join woke on woke.id = chosen.job_id`,

  /** Executions that have not ended, by the release that they are pinned to, with some of their ids. */
  pins: `
  select j.kind as workflow, l.release, count(*)::int as count, (array_agg(j.dedupe_key order by j.id))[1:3] as executions
  from ${schema}.workflow_lifetime l join ${schema}.job j on j.id = l.job_id
  where l.release is not null and j.finished_at is null
  group by 1, 2 order by 1, 2`,

  /** Executions that have not ended and whose journal is long, at most `$1`. */
  longJournals: `
  select j.dedupe_key as execution, max(last.sequence)::int as steps
  from (select distinct job_id from ${schema}.workflow_step where sequence = ${longJournal}) long
  join ${schema}.job j on j.id = long.job_id and j.finished_at is null
  cross join lateral (select max(sequence) as sequence from ${schema}.workflow_step where job_id = j.id) last
  group by 1 order by 2 desc limit $1::int`
})
