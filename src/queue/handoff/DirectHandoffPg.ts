import { Effect } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { instant } from "../../database/SqlInstant.js"
import { hot, named } from "../../database/Statements.js"
import type { AttemptEnd } from "../AttemptEnd.js"
import { gate } from "../claim/ClaimSql.js"
import type { HeldLeases } from "../claim/HeldLeases.js"
import type { StoreError } from "../JobErrors.js"
import type { StampedJobs } from "../NewJob.js"
import * as SqlArrays from "../SqlArrays.js"
import { sharedLock } from "../settings/QueueSql.js"
import type { DirectHandoff } from "./DirectHandoff.js"
import * as JobOffer from "./JobOffer.js"

/**
 * Stores jobs of one kind as already claimed if the queue is open, and as pending otherwise. Parameters: queue, now, ids,
 * lease, pod; then the fields that the jobs share, their payloads and start times.
 */
const insertClaimed = (schema: string) => `
  with entered as materialized (select ${sharedLock(schema)})${gate(schema, { keyed: false, rated: false })}, way as materialized (
    -- A queue without a row has default settings.
    select coalesce((select open from gate), true) as is_open from entered
  ), leased as (
    insert into ${schema}.lease (id, pod_id, claimed_at, jobs)
    select $4, $5, ${instant("$2")}, $3::uuid[] from way where is_open
  )
  insert into ${schema}.job (id, queue, kind, version, payload, priority, run_at, max_attempts, created_at, updated_at,
    status, lease, pod_id, attempt, started_at, heartbeat_at)
  select i.id, $1, $6, $7::int, i.payload, $9::smallint, ${instant("i.run_at")}, $11::smallint, ${instant("$2")}, ${instant("$2")},
    case when is_open then 'running' else 'pending' end, case when is_open then $4::uuid end,
    case when is_open then $5::uuid end, case when is_open then 1 else 0 end,
    case when is_open then ${instant("$2")} end, case when is_open then ${instant("$2")} end
  from rows from (unnest($3::uuid[]), jsonb_array_elements($8::jsonb), unnest($10::float8[])) as i(id, payload, run_at)
  cross join way
  returning lease is not null`

/** Offers jobs to free workers of this process, stored in PostgreSQL by one statement. */
export const make = (
  { direct, schema }: typeof Database.Service,
  ids: IdGenerator,
  leases: HeldLeases,
  directHandoff: typeof DirectHandoff.Service,
  returnJobs: (ends: ReadonlyArray<AttemptEnd>) => Effect.Effect<unknown, DatabaseError>,
  again: (jobs: StampedJobs, now: number) => Effect.Effect<unknown, StoreError>
) => {
  const statements = named("claim", { insertClaimed: hot(insertClaimed(schema)) })
  return JobOffer.make({
    ids,
    directHandoff,
    returnJobs,
    again,
    onTaken: (lease, jobs) =>
      leases.took(
        lease,
        jobs.map(({ id }) => id)
      ),
    insertClaimed: (jobs, lease, pod, now) => {
      const [first] = jobs
      const parameters = [
        first?.queue,
        now,
        SqlArrays.ofPlain(jobs.map(({ id }) => id)),
        lease,
        pod,
        first?.kind,
        first?.version,
        SqlArrays.ofJson(jobs.map(({ payload }) => payload)),
        first?.priority,
        SqlArrays.ofPlain(jobs.map(({ runAt }) => runAt)),
        first?.attempts
      ]
      return Effect.map(direct.rows(statements.insertClaimed, parameters), ([row]) => row?.[0] === true)
    }
  })
}
