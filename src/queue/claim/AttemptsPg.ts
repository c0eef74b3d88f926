import { Effect } from "effect"
import type { Lease } from "../../core/Ids.js"
import type { Status } from "../../core/StoredJob.js"
import type { Database } from "../../database/Database.js"
import { few, hot, named } from "../../database/Statements.js"
import { isStartOf, type OwnAttempt, type Queue } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import { type ClaimedRow, columns, millis, toClaimed } from "./ClaimedRow.js"

/** The columns of a claim, then those of the attempt. */
type AttemptRow = readonly [
  ...ClaimedRow,
  queue: string,
  startedAt: number,
  status: Status,
  isRunning: boolean,
  /** The starts of ended attempts of the pod. Null while the attempt runs. */
  starts: ReadonlyArray<number> | null
]

export const statementsOf = (schema: string) => ({
  attempts: hot(`
  select ${columns(schema, false)}, j.queue, ${millis("j.started_at")}, j.status,
    j.lease is not distinct from job_spot.lease,
    case when j.lease is distinct from job_spot.lease then array(
      select ${millis("j.started_at")} where j.status = 'done' and j.pod_id = $3
      union all select (entry ->> 'startedAt')::float8
      from jsonb_array_elements(j.history) entry where entry ->> 'pod' = $3::uuid::text
        -- Written by the reaper: the pod has lost the job.
        and entry ->> 'outcome' <> 'crashed') end
  from unnest($1::uuid[], $2::uuid[]) with ordinality as job_spot(id, lease, number)
  join ${schema}.job j on j.id = job_spot.id
  where ${few("job_spot.number")} and (j.lease is distinct from job_spot.lease or j.pod_id = $3)`)
})

/** Attempts over PostgreSQL. */
export const make = ({ direct, schema }: typeof Database.Service): (typeof Queue.Service)["attempts"] => {
  const statements = named("claim", statementsOf(schema))

  const read = (row: AttemptRow, lease: Lease): OwnAttempt | undefined => {
    const [queue, startedAt, status, isRunning, starts] = row.slice(14) as unknown as [
      string,
      number,
      Status,
      boolean,
      ReadonlyArray<number> | null
    ]
    if (isRunning) {
      return { _tag: "Running", job: toClaimed(queue, lease, startedAt)(row as unknown as ClaimedRow).job }
    }
    return starts?.some((start) => isStartOf(lease, start)) === true ? { _tag: "Ended", status } : undefined
  }

  return (pod, held) => {
    if (held.length === 0) return Effect.succeed([])
    const ids = SqlArrays.ofPlain(held.map(({ id }) => id))
    const leases = SqlArrays.ofPlain(held.map(({ lease }) => lease))
    return Effect.map(direct.rows(statements.attempts, [ids, leases, pod]), (answer) => {
      const found = held.map((): OwnAttempt | undefined => undefined)
      for (const row of answer as unknown as ReadonlyArray<AttemptRow>) {
        const index = row[13] - 1
        const lease = held[index]?.lease
        if (lease !== undefined) found[index] = read(row, lease)
      }
      return found
    })
  }
}
