import { instant } from "../../database/SqlInstant.js"
import { hot } from "../../database/Statements.js"
import { workChannel } from "../Wakeups.js"

// SQL statements that store jobs.

const insertColumns = "id, queue, kind, version, payload, priority, run_at, max_attempts, created_at, updated_at"
const dedupeColumns = "key, dedupe_key, dedupe_scope, dedupe_until, on_dead, meta, batch_id, woken, is_child"

/** Payloads arrive as one JSON array: the client escapes nothing and the server parses it once. */
const plainSource = `rows from (
    unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), unnest($4::int[]), jsonb_array_elements($5::jsonb),
    unnest($6::smallint[]), unnest($7::float8[]), unnest($8::smallint[])
  ) as i(id, queue, kind, version, payload, priority, run_at, max_attempts)`

const fullSource = plainSource.replace(
  ") as i(id, queue, kind, version, payload, priority, run_at, max_attempts)",
  `, unnest($10::text[]), unnest($11::text[]), unnest($12::text[]), unnest($13::float8[]),
    jsonb_array_elements($14::jsonb), jsonb_array_elements($15::jsonb), unnest($17::uuid[]),
    unnest($18::int[]), unnest($20::boolean[])
  ) as i(id, queue, kind, version, payload, priority, run_at, max_attempts,
    key, dedupe_key, dedupe_scope, dedupe_until, on_dead, meta, batch_id, woken, is_child)`
)

const values = (runAt: string, createdAt: string) =>
  `i.id, i.queue, i.kind, i.version, i.payload, i.priority, ${runAt}, i.max_attempts, ${createdAt}, ${instant("$9")}`

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
  select ${values(instant("i.run_at"), instant("$9"))} from ${plainSource}`),

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
  select ${values("follows.run_at", "follows.created_at")}, i.key, i.dedupe_key, i.dedupe_scope, ${instant("i.dedupe_until")},
    nullif(i.on_dead, 'null'), nullif(i.meta, 'null'), i.batch_id, i.woken, i.is_child
  from lock_wait, ${fullSource}
  cross join lateral ${schema}.behind_key(i.queue, i.key, i.priority, i.id, ${instant("i.run_at")}, ${instant("$9")}) follows
  on conflict do nothing
  returning id`),

  /** Stores jobs that conflict, or decides why not. */
  enqueueJobs: hot(`select place, id, outcome, note from ${schema}.enqueue_jobs($1::jsonb)`)
})
