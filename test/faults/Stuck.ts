import { Effect } from "effect"
import type { Deployment } from "./Deployment.js"

// What a failed case prints about jobs that did not end: the jobs with their lease and its heartbeat, the sessions and
// locks of the server, and the connection pools and last warnings of the pods.

const jobsOf = (schema: string) => `
  select j.id, j.kind, j.status, j.attempt, j.pod_id as pod, j.lease, l.id is not null as "hasLeaseRow",
    round(extract(epoch from now() - j.started_at)::numeric, 1)::float8 as "startedSecondsAgo",
    round(extract(epoch from now() - j.heartbeat_at)::numeric, 1)::float8 as "heartbeatSecondsAgo",
    left(j.last_error, 200) as "lastError", jsonb_path_query_array(j.history, '$[*].outcome') as outcomes
  from "${schema}".job j left join "${schema}".lease l on l.id = j.lease
  where j.finished_at is null and j.kind <> 'tick' order by j.id limit 5`

const sessions = `
  select pid, application_name as name, state, wait_event_type || ':' || wait_event as "waitsFor",
    round(extract(epoch from now() - xact_start)::numeric, 1)::float8 as "transactionSeconds",
    round(extract(epoch from now() - state_change)::numeric, 1)::float8 as "unchangedSeconds",
    pg_blocking_pids(pid) as "blockedBy", left(regexp_replace(query, '\\s+', ' ', 'g'), 100) as query
  from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() order by xact_start`

const rowLocks = (schema: string) => `
  select a.pid, l.relation::regclass::text as relation, l.mode, l.granted
  from pg_locks l join pg_stat_activity a using (pid)
  where a.datname = current_database() and a.pid <> pg_backend_pid() and l.relation = '"${schema}".job'::regclass
    and l.mode like 'Row%'`

const lines = (title: string, rows: ReadonlyArray<object>) => [
  `${title}: ${rows.length}`,
  ...rows.map((row) => `  ${JSON.stringify(row)}`)
]

const poolLines = (metrics: string) =>
  metrics.split("\n").filter((line) => /^nightshift_(database_\w*pool|slots)/.test(line))

/** Describes the jobs that have not ended and what holds them. Never fails. */
export const describe = (deployment: Deployment): Effect.Effect<string> =>
  Effect.gen(function* () {
    const ask = (text: string) =>
      Effect.catchAll(deployment.query<object>(text), (error) => Effect.succeed([{ error: error.message }]))
    const report = [
      ...lines("unfinished jobs", yield* ask(jobsOf(deployment.schema))),
      ...lines("pods", yield* ask(`select id, os_pid, now() - heartbeat_at as age from "${deployment.schema}".pod`)),
      ...lines("sessions", yield* ask(sessions)),
      ...lines("row locks", yield* ask(rowLocks(deployment.schema)))
    ]
    for (const pod of deployment.pods.filter(({ isAlive }) => isAlive())) {
      const { body } = yield* pod.request("GET", "/metrics")
      const warned = pod
        .printed()
        .split("\n")
        .filter((line) => /"(WARN|ERROR|FATAL)/i.test(line))
      report.push(
        `process ${pod.pid}:`,
        ...poolLines(body).map((line) => `  ${line}`),
        ...warned.slice(-15).map((line) => `  ${line.slice(0, 300)}`)
      )
    }
    return report.join("\n")
  })
