import { Clock, Duration, Effect, Layer, Option } from "effect"
import { Database, within } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { instant, millis } from "../database/SqlInstant.js"
import { named } from "../database/Statements.js"
import { minuteOf } from "../telemetry/BucketCount.js"
import { type DatabaseFacts, DatabaseHealth, type DatabasePoint, type Health, type Sessions } from "./DatabaseHealth.js"
import * as HistorySql from "./HistorySql.js"
import { bucketStart, during } from "./HistorySql.js"
import * as TimeGrid from "./TimeGrid.js"

/** A slower check would add to the problem. */
const checkTimeout = Duration.seconds(3)

const statementsOf = (schema: string) => ({
  facts: `
  select pg_database_size(current_database())::float8 as size_bytes,
    pg_total_relation_size('${schema}.job'::regclass)::float8 as job_bytes,
    s.n_live_tup::float8 as job_live_tuples, s.n_dead_tup::float8 as job_dead_tuples,
    (select count(*)::int from pg_stat_activity where datname = current_database()) as connections
  from pg_stat_all_tables s where s.relid = '${schema}.job'::regclass`,

  // An idle session in a transaction blocks vacuum only if it has written or holds a snapshot. Vacuum itself is not a
  // blocker. The start of other users' sessions is visible only with pg_monitor.
  blockers: `
  (select 'session' as what, pid::text as name, usename::text as owner, application_name as application, state,
    ${millis("xact_start")} as since, greatest(age(backend_xmin), age(backend_xid)) as transactions
  from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
    and xact_start is not null and (backend_xmin is not null or backend_xid is not null)
  order by xact_start limit 5)
  union all
  (select 'prepared transaction', gid, owner::text, null, null, ${millis("prepared")}, age(transaction)
  from pg_prepared_xacts where database = current_database() order by prepared limit 5)
  union all
  (select 'replication slot', slot_name::text, null, null, case when active then 'active' else 'inactive' end, null,
    greatest(age(xmin), age(catalog_xmin))
  from pg_replication_slots where xmin is not null or catalog_xmin is not null
  order by 7 desc limit 5)`,

  // Other roles see no backend_type of a session, but its database and application: background processes have neither.
  // `reserved_connections` exists since PostgreSQL 16.
  sessions: `
  select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
      - coalesce(current_setting('reserved_connections', true)::int, 0) as "limit",
    (select count(*)::int from pg_stat_activity where datid is not null and application_name not in (
      current_setting('application_name'), current_setting('application_name') || ' listener')) as others`,

  kept: `select exists (select 1 from ${schema}.database_sample where minute = ${instant("$1")}) as kept`,

  keep: `
  insert into ${schema}.database_sample (minute, size_bytes, job_bytes, job_live_tuples, job_dead_tuples,
    oldest_transaction_seconds, connections)
  values (${instant("$1")}, $2, $3, $4, $5, $6, $7) on conflict (minute) do nothing`,

  series: `
  select ${bucketStart("minute", "$3")} as at, max(size_bytes)::float8 as size_bytes, max(job_bytes)::float8 as job_bytes,
    max(job_live_tuples)::float8 as job_live_tuples, max(job_dead_tuples)::float8 as job_dead_tuples,
    max(oldest_transaction_seconds) as oldest_transaction_seconds, max(connections) as connections
  from ${schema}.database_sample where ${during("minute")}
  group by 1 order by 1`
})

interface FactsRow {
  readonly size_bytes: number
  readonly job_bytes: number
  readonly job_live_tuples: number
  readonly job_dead_tuples: number
  readonly connections: number
}

interface BlockerRow {
  readonly what: Health["blockers"][number]["what"]
  readonly name: string
  readonly owner: string | null
  readonly application: string | null
  readonly state: string | null
  readonly since: number | null
  readonly transactions: number | null
}

const factsOf = (row: FactsRow | undefined, oldestTransactionSeconds: number): DatabaseFacts => ({
  sizeBytes: row?.size_bytes ?? 0,
  jobBytes: row?.job_bytes ?? 0,
  jobLiveTuples: row?.job_live_tuples ?? 0,
  jobDeadTuples: row?.job_dead_tuples ?? 0,
  oldestTransactionSeconds,
  connections: row?.connections ?? 0
})

const blockerOf =
  (now: number) =>
  (row: BlockerRow): Health["blockers"][number] => ({
    what: row.what,
    name: row.name,
    user: row.owner ?? undefined,
    application: row.application === null || row.application === "" ? undefined : row.application,
    state: row.state ?? undefined,
    seconds: row.since === null ? undefined : Math.max(0, now - row.since) / 1000,
    transactions: row.transactions ?? 0
  })

const make = Effect.gen(function* () {
  const database = yield* Database
  const { schema, sql } = database
  const statements = named("health", statementsOf(schema))
  const bounded = within(database, checkTimeout)

  const check = Effect.gen(function* () {
    const [facts, found] = yield* bounded(
      Effect.all([sql.unsafe<FactsRow>(statements.facts), sql.unsafe<BlockerRow>(statements.blockers)])
    )
    const now = yield* Clock.currentTimeMillis
    const blockers = found.map(blockerOf(now)).sort((a, b) => (b.seconds ?? 0) - (a.seconds ?? 0))
    return { at: now, ...factsOf(facts[0], blockers[0]?.seconds ?? 0), blockers }
  })

  const keep = (minute: number, facts: DatabaseFacts) =>
    mapErrors(
      sql.unsafe(statements.keep, [
        minute,
        facts.sizeBytes,
        facts.jobBytes,
        facts.jobLiveTuples,
        facts.jobDeadTuples,
        facts.oldestTransactionSeconds,
        facts.connections
      ])
    )

  return DatabaseHealth.of({
    check,
    replica: database.replica === undefined ? Effect.succeed(undefined) : database.replica.state,
    sessions: Effect.map(bounded(sql.unsafe<Sessions>(statements.sessions)), ([row]) => row ?? { limit: 0, others: 0 }),
    sample: Effect.gen(function* () {
      const minute = minuteOf(yield* Clock.currentTimeMillis)
      const [row] = yield* mapErrors(sql.unsafe<{ readonly kept: boolean }>(statements.kept, [minute]))
      if (row?.kept === true) return Option.none()
      const health = yield* check
      yield* keep(minute, health)
      return Option.some(health)
    }),
    series: ({ width, ...range }) =>
      Effect.gen(function* () {
        const grid = yield* TimeGrid.of(range, width)
        const rows = yield* bounded(
          sql.unsafe<FactsRow & { readonly at: number; readonly oldest_transaction_seconds: number }>(
            statements.series,
            [grid.from, grid.to, grid.width]
          )
        )
        return rows.map((row): DatabasePoint => ({ at: row.at, ...factsOf(row, row.oldest_transaction_seconds) }))
      }),
    purge: (olderThan) =>
      HistorySql.purgeRows(
        database,
        { table: "database_sample", key: "minute", old: (before) => `minute < ${before}` },
        olderThan
      )
  })
})

export const layer: Layer.Layer<DatabaseHealth, never, Database> = Layer.effect(DatabaseHealth, make)
