import { computed } from "../core/StoredJob.js"
import { subjectKey } from "../core/Subject.js"
import { instant, millis } from "../database/SqlInstant.js"

// SQL for the follow-ups of dead jobs. The statement that records the death stores them. A follow-up that only the code
// of the kind can compute is stored later, if that statement did not get it.

/** An error without its stack trace (see core/ErrorText). */
const withoutTrace = (column: string) => `regexp_replace(${column}, E'\\n( {4}at |Caused by: ).*', '')`

/** The jobs that have just died and have a follow-up: all but those that an operator cancelled. */
const died = "d.status = 'dead' and d.dead_reason <> 'cancelled'"

export const isComputed = (column: string) => `${column} = '"${computed}"'`

/** Remembers the follow-ups that the code of a kind must compute and has not computed yet. */
export const postponed = (schema: string, ended: string, now: string) => `
  insert into ${schema}.follow_up_due (job_id, death, kind, version, payload, dead_reason, error, died_at, due_at)
  select d.id, d.death_count, d.kind, d.version, d.payload, d.dead_reason, ${withoutTrace("d.last_error")},
    ${instant(now)}, ${instant(now)}
  from ${ended} d where ${died} and ${isComputed("d.on_dead")}
  on conflict do nothing`

/** Stores a follow-up for each job that has just died, once per death. */
export const followUps = (schema: string, ended: string, diedAt: string, now = diedAt) => `
  insert into ${schema}.job (id, queue, kind, version, payload, max_attempts, priority, meta, run_at, created_at,
    updated_at)
  select
    -- Sorts by time like other ids, and is always the same for the same death.
    overlay(overlay(md5(d.id::text || ':' || d.death_count) placing lpad(to_hex(${diedAt}::float8::bigint), 12, '0') from 1)
      placing '7' from 13)::uuid,
    coalesce(case when d.on_dead ? 'routed' then ${schema}.route_of(d.on_dead->>'kind') end, d.on_dead->>'queue'),
    d.on_dead->>'kind', (d.on_dead->>'version')::int, d.on_dead->'payload',
    (d.on_dead->>'attempts')::smallint, coalesce((d.on_dead->>'priority')::smallint, 0),
    jsonb_build_object('follows', d.id, 'reason', d.dead_reason, 'error', ${withoutTrace("d.last_error")}) || coalesce((
      select jsonb_build_object('${subjectKey}', own.meta->'${subjectKey}')
      from ${schema}.job own where own.id = d.id and own.meta ? '${subjectKey}'), '{}'),
    ${instant(now)}, ${instant(now)}, ${instant(now)}
  from ${ended} d
  where ${died} and d.on_dead is not null and not ${isComputed("d.on_dead")}
  on conflict do nothing
  returning queue, kind`

export const make = (schema: string) => ({
  /** Takes follow-ups that the code of these kinds must compute. A row that another pod has taken is skipped. */
  takeDueFollowUps: `
  delete from ${schema}.follow_up_due f using (
    select job_id, death from ${schema}.follow_up_due
    where kind = any($1::text[]) and due_at <= ${instant("$2")}
    order by due_at limit $3::int for update skip locked
  ) due
  where f.job_id = due.job_id and f.death = due.death
  returning f.job_id, f.death, f.kind, f.version, f.payload, f.dead_reason, f.error, ${millis("f.died_at")} as died_at`,

  /** Stores a follow-up that was computed after the death. */
  storeFollowUp: `
  with d as (
    select $1::uuid as id, $2::smallint as death_count, 'dead' as status, $3::text as dead_reason, $4::text as last_error,
      $5::jsonb as on_dead
  ) ${followUps(schema, "d", "$6", "$7")}`,

  /** Returns a follow-up that could not be computed. */
  postponeFollowUp: `
  insert into ${schema}.follow_up_due (job_id, death, kind, version, payload, dead_reason, error, died_at, due_at)
  values ($1, $2, $3, $4, $5::jsonb, $6, $7, ${instant("$8")}, ${instant("$9")})`
})
