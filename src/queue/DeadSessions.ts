import { Deferred, Effect } from "effect"
import type { JobId, Lease, PodId } from "../core/Ids.js"
import type { Database } from "../database/Database.js"
import * as SqlArrays from "./SqlArrays.js"

// A pod that is frozen, or cut off from a server that has not noticed yet, may hold its jobs' rows in a transaction, and
// recovery skips locked rows.

/** Jobs to look at per call, and how long the lock of each is waited for. */
const maxLockedJobs = 16
const probeFor = "250ms"

const statementsOf = (schema: string) => ({
  /** Jobs of the leases `$1`, one for each transaction or savepoint that locked some of them last. */
  held: `
  select distinct on (j.xmax::text) j.id, j.pod_id
  from unnest($1::uuid[]) as quiet(id) join ${schema}.lease l on l.id = quiet.id
  cross join unnest(l.jobs) as taken(id)
  join ${schema}.job j on j.id = taken.id and j.lease = l.id
  order by j.xmax::text, j.id limit ${maxLockedJobs}`,

  prepare: `select set_config('lock_timeout', '${probeFor}', true), pg_backend_pid() as pid`,

  lock: `select id from ${schema}.job where id = $1 for update`,

  /**
   * Sessions of this application that make the backend `$1` wait, and wait for their client inside a transaction. Ends
   * those in the transactions `$2`, if the pod `$3` is gone. A session of the same role may be ended without further
   * privileges.
   */
  endHolders: `
  with later as materialized (
    select pg_sleep(0.02)
  ), blocking as materialized (
    select pg_blocking_pids($1::int) as pids from later
  )
  select a.pid, a.backend_xid::text as xid,
    case when a.backend_xid::text = any($2::text[]) and not exists (select from ${schema}.pod p where p.id = $3::uuid)
      then pg_terminate_backend(a.pid) else false end as ended
  from blocking join pg_stat_activity a on a.pid = any(blocking.pids)
  where a.datname = current_database() and a.usename = session_user and a.state like 'idle in transaction%'
    and a.application_name = current_setting('application_name')`
})

interface Holder {
  readonly pid: number
  readonly xid: string
  readonly ended: boolean
}

/**
 * Finds the sessions that hold jobs of these leases, and ends those that an earlier call, whose result is `before`, found
 * in the same transaction. The next recovery gets their jobs. Returns the transactions. Never fails.
 */
export const make = ({ schema, sql, transaction }: typeof Database.Service) => {
  const statements = statementsOf(schema)

  /**
   * Waits for the lock of a job and asks the server which sessions hold it. The row itself does not name the session:
   * its xmax may be a released savepoint or a group of lockers, which no view maps to a session.
   */
  const holdersOf = (id: JobId, pod: PodId | null, before: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const waiting = yield* Deferred.make<number>()
      const probe = transaction(
        Effect.gen(function* () {
          const [row] = yield* sql.unsafe<{ pid: number }>(statements.prepare)
          if (row !== undefined) yield* Deferred.succeed(waiting, row.pid)
          yield* sql.unsafe(statements.lock, [id])
        })
      )
      const look = Effect.flatMap(Deferred.await(waiting), (pid) =>
        sql
          .unsafe<Holder>(statements.endHolders, [pid, SqlArrays.ofTexts(before), pod])
          .pipe(Effect.repeat({ until: (rows) => rows.length > 0 }))
      )
      return yield* Effect.raceFirst(Effect.as(Effect.ignore(probe), []), look)
    })

  return (leases: ReadonlyArray<Lease>, before: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<string>> =>
    Effect.gen(function* () {
      if (leases.length === 0) return []
      const held = yield* sql.unsafe<{ id: JobId; pod_id: PodId | null }>(statements.held, [SqlArrays.ofPlain(leases)])
      const holders = yield* Effect.forEach(held, ({ id, pod_id }) => holdersOf(id, pod_id, before))
      const found = holders.flat()
      const ended = new Set(found.filter((holder) => holder.ended).map(({ pid }) => pid))
      if (ended.size > 0) {
        yield* Effect.logWarning(
          `ended ${ended.size} database sessions of processes without a heartbeat, which held locks on their jobs (backend ${[...ended].join(", ")})`
        )
      }
      return [...new Set(found.map(({ xid }) => xid))]
    }).pipe(
      Effect.catchAll((error) =>
        Effect.as(Effect.logDebug("could not look for sessions that hold jobs of dead processes", error), [])
      )
    )
}
