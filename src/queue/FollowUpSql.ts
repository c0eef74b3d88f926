import { computed, limits } from "../core/StoredJob.js"
import { subjectKey } from "../core/Subject.js"
import { instant, millis } from "../database/SqlInstant.js"

// SQL for the follow-ups of dead jobs. The statement that records the death stores them. A follow-up that only the code
// of the kind can compute is stored later, if that statement did not get it.

/** The subject of a job `j` that has died. */
export const subjectOfDead = `case when j.status = 'dead' then j.meta->>'${subjectKey}' end as subject`

/** An error without its stack trace (see core/ErrorText). */
const withoutTrace = (column: string) => `regexp_replace(${column}, E'\\n( {4}at |Caused by: ).*', '')`

/** The jobs that have just died and have a follow-up: all but those that an operator cancelled. */
const died = "d.status = 'dead' and d.dead_reason <> 'cancelled'"

export const isComputed = (column: string) => `${column} = '"${computed}"'`

const isStored = `${died} and d.on_dead is not null and not ${isComputed("d.on_dead")}`

const whole = (field: string, max: number) =>
  `@.${field}.type() == "number" && @.${field} == @.${field}.floor() && @.${field} >= 1 && @.${field} <= ${max}`

/**
 * Whether the stored follow-up can be inserted. Enqueue has checked it, unless another program wrote the row. One that cannot
 * must not keep the other jobs of the statement from ending. A priority out of range is brought into it.
 */
const isSound = `(jsonb_typeof(d.on_dead) = 'object' and jsonb_path_exists(d.on_dead, '$ ? (@.kind.type() == "string" && @.queue.type() == "string"
    && exists(@.payload) && ${whole("version", 2_147_483_647)} && ${whole("attempts", limits.attempts)}
    && (!exists(@.priority) || @.priority == null || @.priority.type() == "number"))', '{}', true))`

const priority = `least(greatest(coalesce((d.on_dead->>'priority')::numeric, 0), ${limits.priority.min}), ${limits.priority.max})::smallint`

/** The jobs that have just died and whose stored follow-up cannot be inserted. */
export const unsound = (ended: string) => `${ended} d where ${isStored} and not ${isSound}`

/** Remembers the follow-ups that the code of a kind must compute and has not computed yet. */
export const postponed = (schema: string, ended: string, now: string) => `
  insert into ${schema}.follow_up_due (job_id, death, kind, version, payload, dead_reason, error, subject, died_at, due_at)
  select d.id, d.death_count, d.kind, d.version, d.payload, d.dead_reason, ${withoutTrace("d.last_error")}, d.subject,
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
    (d.on_dead->>'attempts')::smallint, ${priority},
    jsonb_build_object('follows', d.id, 'reason', d.dead_reason, 'error', ${withoutTrace("d.last_error")}) || ${schema}.subject_meta(d.subject),
    ${instant(now)}, ${instant(now)}, ${instant(now)}
  from ${ended} d
  where ${isStored} and ${isSound}
  on conflict do nothing
  returning queue, kind`

export const make = (schema: string) => ({
  /** Locks follow-ups that the code of these kinds must compute. A row that another pod has locked is skipped. */
  takeDueFollowUps: `
  select job_id, death, kind, version, payload, ${millis("died_at")} as died_at from ${schema}.follow_up_due
  where kind = any($1::text[]) and due_at <= ${instant("$2")}
  order by due_at limit $3::int for update skip locked`,

  /** Stores a follow-up that was computed after the death. */
  storeFollowUp: `
  with d as (
    delete from ${schema}.follow_up_due where job_id = $1::uuid and death = $2::smallint
    returning job_id as id, death as death_count, 'dead' as status, dead_reason, error as last_error, subject,
      $3::jsonb as on_dead
  ) ${followUps(schema, "d", "$4", "$5")}`,

  /** Keeps a follow-up that could not be computed. In its row, which an erasure that waits for the lock then deletes. */
  postponeFollowUp: `update ${schema}.follow_up_due set due_at = ${instant("$3")} where job_id = $1 and death = $2`
})
