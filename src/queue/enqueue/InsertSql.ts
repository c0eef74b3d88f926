import { instant } from "../../database/SqlInstant.js"
import { hot } from "../../database/Statements.js"
import { workChannel } from "../Wakeups.js"

// SQL statements that store jobs, and that handle jobs which hold their ids or dedupe keys.

const insertColumns = "id, queue, kind, version, payload, priority, run_at, max_attempts, created_at, updated_at"
const dedupeColumns = "key, dedupe_key, dedupe_scope, dedupe_until, on_dead, meta, batch_id, woken"

/** Payloads arrive as one JSON array: the client escapes nothing and the server parses it once. */
const plainSource = `rows from (
    unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), unnest($4::int[]), jsonb_array_elements($5::jsonb),
    unnest($6::smallint[]), unnest($7::float8[]), unnest($8::smallint[])
  ) as i(id, queue, kind, version, payload, priority, run_at, max_attempts)`

const fullSource = plainSource.replace(
  ") as i(id, queue, kind, version, payload, priority, run_at, max_attempts)",
  `, unnest($10::text[]), unnest($11::text[]), unnest($12::text[]), unnest($13::float8[]),
    jsonb_array_elements($14::jsonb), jsonb_array_elements($15::jsonb), unnest($17::uuid[]),
    unnest($18::int[])
  ) as i(id, queue, kind, version, payload, priority, run_at, max_attempts,
    key, dedupe_key, dedupe_scope, dedupe_until, on_dead, meta, batch_id, woken)`
)

const plainValues = `i.id, i.queue, i.kind, i.version, i.payload, i.priority, ${instant("i.run_at")}, i.max_attempts,
    ${instant("$9")}, ${instant("$9")}`

export const make = (schema: string) => ({
  /** Inserts jobs that differ only in id, payload and start time, have new ids and no dedupe key. */
  insertUniform: hot(`
  insert into ${schema}.job (${insertColumns})
  select i.id, $2, $3, $4::int, i.payload, $6::smallint, ${instant("coalesce(i.run_at, $9)")}, $8::smallint,
    ${instant("$9")}, ${instant("$9")}
  -- Set-returning functions in the select list stream their rows; in FROM, PostgreSQL would materialize them all first.
  -- A missing start time means now.
  from (
    select unnest($1::uuid[]) as id, jsonb_array_elements($5::jsonb) as payload, unnest($7::float8[]) as run_at
  ) i
  -- The NOTIFY is sent at commit. A separate statement would compete with the claim.
  cross join (select case when $10::text is not null then pg_notify('${workChannel(schema)}', $10)::text end) as notified`),

  /** Inserts jobs with new ids and no dedupe key: conflicts are impossible. */
  insertPlain: hot(`
  insert into ${schema}.job (${insertColumns})
  select ${plainValues} from ${plainSource}`),

  /** Inserts jobs that may conflict by id or dedupe key. Returns the ids that were stored. */
  insertFull: hot(`
  -- Another open transaction that holds a key must not stall the whole batch: the lock wait is bounded, and the caller
  -- then retries the jobs one by one. The setting is local to this statement's transaction.
  -- As in the uniform insert, the NOTIFY is part of the statement.
  with lock_wait as materialized (
    select set_config('lock_timeout', coalesce($16, current_setting('lock_timeout')), true),
      case when $19::text is not null then pg_notify('${workChannel(schema)}', $19)::text end
  )
  insert into ${schema}.job (${insertColumns}, ${dedupeColumns})
  select ${plainValues}, i.key, i.dedupe_key, i.dedupe_scope, ${instant("i.dedupe_until")},
    nullif(i.on_dead, 'null'), nullif(i.meta, 'null'), i.batch_id, i.woken
  from lock_wait, ${fullSource}
  on conflict do nothing
  returning id`),

  /** Finds the jobs that conflict with these, and whether a job with the same id has the same content. */
  standing: `
  select i.place::int as place, j.id, j.id = i.id as same_id,
    (j.kind, j.version, j.queue, j.payload) = (i.kind, i.version, i.queue, i.payload) as same_content,
    j.status = 'pending' and j.kind = i.kind as replaceable,
    coalesce(j.status in ('done', 'dead') and j.dedupe_until <= ${instant("$8")}, false) as lapsed
  from rows from (unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), unnest($4::int[]),
    jsonb_array_elements($5::jsonb), unnest($6::text[]), unnest($7::int[]))
    as i(id, queue, kind, version, payload, dedupe_key, place)
  join ${schema}.job j on j.id = i.id
    or (j.dedupe_key = i.dedupe_key and (j.dedupe_scope = 'retained' or j.finished_at is null))`,

  lapse: `
  with over as (
    select id from ${schema}.job
    where id = any($1::uuid[]) and status in ('done', 'dead') and dedupe_until <= ${instant("$2")}
    order by id for update
  )
  update ${schema}.job j set dedupe_key = null, dedupe_scope = null, dedupe_until = null from over where j.id = over.id`,

  /**
   * Debounce: copies the payload and start time of new jobs to the pending holders of their keys, if the kind is the
   * same.
   */
  replace: `
  with given as (
    select * from rows from (unnest($1::uuid[]), jsonb_array_elements($2::jsonb), unnest($3::int[]), unnest($4::float8[]),
      unnest($5::smallint[]), unnest($6::text[])) as g(id, payload, version, run_at, priority, kind)
  ), locked as (
    -- Lock in id order: otherwise two requests that replace the same jobs could deadlock.
    select j.id from ${schema}.job j join given on given.id = j.id and given.kind = j.kind
    where j.status = 'pending' order by j.id for update of j
  )
  update ${schema}.job j set payload = given.payload, version = given.version, run_at = ${instant("given.run_at")},
    priority = given.priority, updated_at = ${instant("$7")}
  from given join locked on locked.id = given.id where j.id = given.id`
})
