import { instant } from "../../database/SqlInstant.js"

// SQL statements about steps that run: their heartbeats and permits.

export const make = (schema: string) => ({
  /** Stores the last heartbeat of a step. Returns no row if the run has lost its lease. */
  storeHeartbeat: `
  with held as (
    select dedupe_key from ${schema}.job where id = $1 and lease = $2 for key share
  )
  insert into ${schema}.workflow_deferred as d (execution, kind, name, created_at, due_at, completed_at, exit)
  select dedupe_key, 'heartbeat', $3, ${instant("$4")}, ${instant("$5")}, ${instant("$6")}, $7::jsonb from held
  on conflict (execution, kind, name) do update set created_at = excluded.created_at, due_at = excluded.due_at,
    completed_at = excluded.completed_at, exit = excluded.exit
  returning d.execution`,

  turnPermit: `
  select granted, place, woken from ${schema}.turn_permit($1::text, $2::uuid, $3::text, $4::uuid, $5::int, $6::float8,
    $7::boolean)`
})
