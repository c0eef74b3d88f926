import { Clock, Duration, Effect, Redacted } from "effect"
import { Pods, type StoredPod } from "../../cluster/Pods.js"
import * as BytesText from "../../core/BytesText.js"
import * as DurationText from "../../core/DurationText.js"
import { suggestion } from "../../core/Spelling.js"
import { Database } from "../../database/Database.js"
import { DatabaseConfig } from "../../database/DatabaseConfig.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { DatabaseUrl, serversOf } from "../../database/DatabaseUrl.js"
import * as ServerIdentity from "../../database/ServerIdentity.js"
import { instant, millis } from "../../database/SqlInstant.js"
import { DatabaseHealth, type Health, type VacuumBlocker } from "../../history/DatabaseHealth.js"
import { MetricsConfig } from "../../history/MetricsConfig.js"
import { type KindTotals, MinuteBuckets } from "../../history/MinuteBuckets.js"
import { startAdvice } from "../../queue/why/Why.js"
import { Storage, type StuckWorkspace, stuckAfter } from "../../uploads/Storage.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import * as ConnectionBudget from "../../worker/ConnectionBudget.js"
import { unservedAmong } from "../../worker/loops/Rebalancer.js"
import { age } from "../Terminal.js"
import { type Check, fail, ok, warn } from "./Check.js"
import { journals, pins } from "./WorkflowChecks.js"

const hour = Duration.toMillis("1 hour")
/** Fewer dead jobs per hour are never reported. */
const few = 10
/** Warn above this multiple of the previous day's hourly mean. */
const growth = 3

const deaths = (totals: ReadonlyArray<KindTotals>) => totals.reduce((sum, { dead }) => sum + dead, 0)

/** Checks whether more jobs died than usual, from the pods' metrics. */
const deadJobs: Check = {
  name: "deaths",
  run: Effect.gen(function* () {
    const buckets = yield* MinuteBuckets
    const now = yield* Clock.currentTimeMillis
    const recent = yield* buckets.totals({ from: now - hour, to: now + 1 })
    const before = yield* buckets.totals({ from: now - 25 * hour, to: now - hour })
    const died = deaths(recent)
    const usual = deaths(before) / 24
    const summary = `${died} ${died === 1 ? "job" : "jobs"} died in the last hour (${Math.round(usual)} per hour in the day before)`
    if (died < few || died <= usual * growth) return [ok(`${summary}.`)]
    const worst = recent.filter(({ dead }) => dead > 0).slice(0, 3)
    const names = worst.map(({ dead, kind, queue }) => `${kind} in ${queue} (${dead})`).join(", ")
    return [
      warn(
        `${summary}: ${names}.`,
        "Find the cause with `nightshift jobs list --state dead`, fix it, then run `nightshift jobs requeue`."
      )
    ]
  })
}

const maxNamedQueues = 20

/** Reports queues with due jobs that no live pod serves. */
const queues: Check = {
  name: "queues",
  run: Effect.gen(function* () {
    const { lease } = yield* ClusterConfig
    const live = yield* Effect.flatMap(Pods, (pods) => pods.live(lease))
    const names = yield* unservedAmong(live)
    const idle = live.filter(({ queues }) => queues.length === 0).length
    const serveNone = idle === 0 ? "" : ` (${idle} ${idle === 1 ? "serves" : "serve"} no queue)`
    const pods = (live.length === 1 ? "1 process is live" : `${live.length} processes are live`) + serveNone
    if (names.length === 0) return [ok(`${pods}; all queues with due jobs are served.`)]
    const listed =
      names.slice(0, maxNamedQueues).join(", ") +
      (names.length > maxNamedQueues ? ` and ${names.length - maxNamedQueues} more` : "")
    return [
      warn(
        `${pods}, but none serves these queues with due jobs: ${listed}.`,
        `${startAdvice(names.slice(0, maxNamedQueues))} Or add them to NIGHTSHIFT_QUEUES of a running process and restart it.`
      )
    ]
  })
}

/** Maximum number of waiting jobs to read, newest first. */
const maxReadJobs = 10_000
const maxNamedKinds = 5

/** Waiting jobs that a pod returned because it has no handler for their kind, by kind and queue. */
const returnedJobs = (schema: string) => `
  select kind, queue, count(*)::int as jobs from (
    select kind, queue, unknown_since from ${schema}.job
    where finished_at is null and (run_at > created_at or last_error is not null) order by id desc limit ${maxReadJobs}
  ) waiting
  where unknown_since is not null group by kind, queue order by jobs desc, kind, queue`

/** Reports jobs of a kind that no pod of their queue handles, for example because it is misspelled. */
const kinds: Check = {
  name: "kinds",
  run: Effect.gen(function* () {
    const { schema, sql } = yield* Database
    const { lease } = yield* ClusterConfig
    const live = yield* Effect.flatMap(Pods, (pods) => pods.live(lease))
    const returned = yield* mapErrors(
      sql.unsafe<{ readonly kind: string; readonly queue: string; readonly jobs: number }>(returnedJobs(schema))
    )
    const unhandled = returned.filter(
      ({ kind, queue }) => !live.some((pod) => !pod.draining && pod.queues.includes(queue) && pod.kinds.includes(kind))
    )
    if (unhandled.length === 0) return [ok("No job waits for a process that has a handler for its kind.")]
    const known = new Set(live.flatMap((pod) => pod.kinds))
    const listed = unhandled
      .slice(0, maxNamedKinds)
      .map(({ jobs, kind, queue }) => `"${kind}" in ${queue} (${jobs}).${suggestion(kind, known)}`)
    const more = unhandled.length > maxNamedKinds ? ` There are ${unhandled.length - maxNamedKinds} more.` : ""
    return [
      warn(
        `Jobs wait because no live process of their queue has a handler for their kind: ${listed.join(" ")}${more}`,
        "Start a process with the handler. Cancel the jobs if the kind is misspelled: `nightshift jobs cancel --kind <kind>`."
      )
    ]
  })
}

/** A process that has the code of a kind makes its follow-ups within minutes. One that fails is due again an hour later. */
const followUpsLate = Duration.minutes(10)

const lateFollowUps = (schema: string) => `
  select kind, count(*)::int as jobs, ${millis("min(died_at)")} as since from ${schema}.follow_up_due
  where due_at <= ${instant("$1")} group by kind order by jobs desc, kind`

/** Reports dead jobs whose follow-up no process makes: only code with the kind's onDead can compute it. */
const followUps: Check = {
  name: "followups",
  run: Effect.gen(function* () {
    const { schema, sql } = yield* Database
    const now = yield* Clock.currentTimeMillis
    const late = yield* mapErrors(
      sql.unsafe<{ readonly kind: string; readonly jobs: number; readonly since: number }>(lateFollowUps(schema), [
        now - Duration.toMillis(followUpsLate)
      ])
    )
    if (late.length === 0) return [ok("No follow-up of a dead job waits for a process that can make it.")]
    const listed = late.slice(0, maxNamedKinds).map(({ jobs, kind, since }) => {
      return `"${kind}" (${jobs}, the first ${age(since, now)})`
    })
    const more = late.length > maxNamedKinds ? `, and ${late.length - maxNamedKinds} more kinds` : ""
    return [
      warn(
        `Jobs have died and no live process makes their follow-up, by kind: ${listed.join(", ")}${more}.`,
        "Start a process with a handler for the kind that has its onDead."
      )
    ]
  })
}

/** Pods with a heartbeat this recent may still be running, connected to a server whose writes do not reach this one. */
const recently = Duration.minutes(10)
const maxNamedPods = 5

/** Reports more than one writable server in the URL, as after a failover that did not stop the old primary. */
export const ofNamed = (servers: ReadonlyArray<ServerIdentity.NamedServer>) => {
  const writers = servers.flatMap(({ address, server, takesWrites }) =>
    takesWrites && server !== undefined ? [{ address, server }] : []
  )
  const different = writers.filter(
    ({ server }, index) => !writers.slice(0, index).some((other) => ServerIdentity.isSame(other.server, server))
  )
  if (different.length < 2) return []
  const list = different.map(({ address, server }) => `${address} (${ServerIdentity.show(server)})`).join(", ")
  return [
    fail(
      `${different.length} servers in DATABASE_URL accept writes: ${list}. Jobs stored on one of them are missing on the other.`,
      "Stop all but the primary, or remove their addresses, and restart the processes that were connected to them. Then enqueue the jobs that exist only on the old primary again."
    )
  ]
}

/** Reports pods whose last heartbeat was written by another server: they may still be connected to it. */
const ofPods = (here: string, pods: ReadonlyArray<StoredPod>, now: number) => {
  const elsewhere = pods.filter(({ server }) => server !== undefined && !ServerIdentity.isSame(server, here))
  if (elsewhere.length === 0) return []
  const list = elsewhere
    .slice(0, maxNamedPods)
    .map(
      ({ heartbeatAt, host, id, label, server = "" }) =>
        `${label ?? id} (${host.name}, pid ${host.pid}) on ${ServerIdentity.show(server)}, ${age(heartbeatAt, now)}`
    )
    .join("; ")
  const more = elsewhere.length > maxNamedPods ? `; and ${elsewhere.length - maxNamedPods} more` : ""
  return [
    warn(
      `This address leads to ${ServerIdentity.show(here)}, but ${elsewhere.length === 1 ? "1 process sent its" : `${elsewhere.length} processes sent their`} last heartbeat to another server: ${list}${more}.`,
      "If these processes are still running, they write to a server that is no longer the primary: stop that server and restart the processes. If PostgreSQL was restarted and they have exited, no action is needed."
    )
  ]
}

/** Checks that all pods use the PostgreSQL server that this address leads to. */
const servers: Check = {
  name: "servers",
  run: Effect.gen(function* () {
    const { sql } = yield* Database
    const { urls } = serversOf(Redacted.value(yield* DatabaseUrl))
    const config = yield* DatabaseConfig
    const rows = yield* mapErrors(sql.unsafe<{ server: string }>(`select ${ServerIdentity.expression} as server`))
    const here = rows[0]?.server ?? ""
    const pods = yield* Effect.flatMap(Pods, ({ live }) => live(recently))
    const named =
      urls.length === 1
        ? []
        : yield* Effect.forEach(urls, (url) => ServerIdentity.ask(url, config), { concurrency: "unbounded" })
    const found = [...ofNamed(named), ...ofPods(here, pods, yield* Clock.currentTimeMillis)]
    return found.length === 0
      ? [ok(`Every process uses the server that this address leads to: ${ServerIdentity.show(here)}.`)]
      : found
  })
}

/** Maximum number of workspaces listed. */
const maxNamedWorkspaces = 5

const waits = ({ bytes, files, oldest, workspace }: StuckWorkspace, now: number) => {
  const age = DurationText.format(Duration.minutes(Math.floor((now - oldest) / 60_000)))
  return `${workspace} (${files === 1 ? "1 file" : `${files} files`}, ${BytesText.format(bytes)}, for ${age})`
}

/** Reports workspaces whose files are not fetched or expire unfetched. */
const uploads: Check = {
  name: "uploads",
  run: Effect.gen(function* () {
    const storage = yield* Storage
    const { acked, expired, fetched, waiting } = yield* storage.counts
    const stuck = yield* storage.stuck(stuckAfter)
    const now = yield* Clock.currentTimeMillis
    const counts = `${waiting + fetched} waiting, ${acked} acknowledged`
    const findings = []
    if (stuck.length > 0) {
      const named = stuck.slice(0, maxNamedWorkspaces).map((workspace) => waits(workspace, now))
      const more = stuck.length > maxNamedWorkspaces ? ` and ${stuck.length - maxNamedWorkspaces} more` : ""
      const fix = "Check that the puller is running and its token is valid (`nightshift uploads tokens list`)."
      findings.push(warn(`Files are waiting too long: ${named.join(", ")}${more}.`, fix))
    }
    if (expired > 0 && expired > acked) {
      const fix = "Start a puller for every workspace that receives uploads. Files that are not acknowledged expire."
      findings.push(warn(`More files expired (${expired}) than were acknowledged (${acked}).`, fix))
    }
    return findings.length > 0 ? findings : [ok(`Files: ${counts}; none has waited longer than an hour.`)]
  })
}

/** Warn above this number of dead rows if they also outnumber the live rows. */
const manyDeadTuples = 100_000
/** Transactions a replication slot may lag behind before it is reported. */
const manyTransactions = 1_000_000

const shown = (seconds: number) => DurationText.format(Duration.seconds(Math.round(seconds)))

const described = ({ application, name, state, user, what }: VacuumBlocker) => {
  const more = [application, user === undefined ? undefined : `user ${user}`, state].filter(
    (part) => part !== undefined
  )
  return `${what} ${name}${more.length === 0 ? "" : ` (${more.join(", ")})`}`
}

const remedy = ({ name, what }: VacuumBlocker) => {
  switch (what) {
    case "session":
      return `End it with select pg_terminate_backend(${name}), and set idle_in_transaction_session_timeout.`
    case "prepared transaction":
      return `Run COMMIT PREPARED or ROLLBACK PREPARED '${name}'.`
    case "replication slot":
      return `Restart its consumer, or drop the slot: select pg_drop_replication_slot('${name}').`
  }
}

const ofBlocker = (blocker: VacuumBlocker, limit: number) => {
  const { seconds, transactions } = blocker
  const isOld = seconds === undefined ? transactions > manyTransactions : seconds > limit
  if (!isOld) return []
  const howLong = seconds === undefined ? `over ${transactions} transactions` : `for ${shown(seconds)}`
  return [warn(`${described(blocker)} has blocked vacuum ${howLong}.`, remedy(blocker))]
}

export const ofTuples = (
  { jobDeadTuples, jobLiveTuples }: Pick<Health, "jobDeadTuples" | "jobLiveTuples">,
  schema: string
) =>
  jobDeadTuples > manyDeadTuples && jobDeadTuples > jobLiveTuples
    ? [
        warn(
          `The job table has ${jobDeadTuples} dead rows and ${jobLiveTuples} live rows.`,
          `Check that autovacuum is enabled and not blocked. VACUUM ${schema}.job removes them immediately.`
        )
      ]
    : []

/** Reports what blocks vacuum. Dead rows that are not removed slow down every claim. */
const vacuum: Check = {
  name: "vacuum",
  run: Effect.gen(function* () {
    const health = yield* Effect.flatMap(DatabaseHealth, ({ check }) => check)
    const limit = Duration.toSeconds((yield* MetricsConfig).oldTransaction)
    const { schema } = yield* DatabaseConfig
    const found = [...health.blockers.flatMap((blocker) => ofBlocker(blocker, limit)), ...ofTuples(health, schema)]
    if (found.length > 0) return found
    const oldest = health.oldestTransactionSeconds
    const open = oldest === 0 ? "No transaction is open" : `The oldest open transaction is ${shown(oldest)} old`
    return [ok(`${open}; the job table has ${health.jobDeadTuples} dead rows.`)]
  })
}

/** Reports a replica that reads cannot use. Without one there is nothing to report. */
const replica: Check = {
  name: "replica",
  run: Effect.map(
    Effect.flatMap(DatabaseHealth, (health) => health.replica),
    (found) => {
      if (found === undefined) return []
      if (found.unused === undefined)
        return [ok(`The replica at ${found.address} is ${shown(found.lagSeconds ?? 0)} behind.`)]
      return [
        warn(
          `Lists and charts use the primary: the replica at ${found.address} ${found.unused}.`,
          "Check its replication, or point DATABASE_READ_URL to another replica."
        )
      ]
    }
  )
}

/** Reports live processes that together may open more connections than the server accepts. */
export const ofBudget = (budget: ConnectionBudget.ConnectionBudget) =>
  ConnectionBudget.isExceeded(budget)
    ? [warn(`${ConnectionBudget.summary(budget)}.`, `${ConnectionBudget.advice}.`)]
    : [ok(`${ConnectionBudget.summary(budget)}.`)]

const connections: Check = { name: "connections", run: Effect.map(ConnectionBudget.read, ofBudget) }

/** Checks that need a database with a current schema, in the order they run. */
export const checks: ReadonlyArray<Check> = [
  servers,
  connections,
  replica,
  vacuum,
  queues,
  kinds,
  followUps,
  deadJobs,
  uploads,
  pins,
  journals
]
