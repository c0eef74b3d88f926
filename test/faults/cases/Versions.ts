import { Effect, Redacted } from "effect"
import pg from "pg"
import * as TestDatabase from "../../support/TestDatabase.js"
import * as Deployment from "../Deployment.js"
import { type FaultCase, millisOf } from "../FaultCase.js"
import {
  crashRecovery,
  doctorSays,
  first,
  nothingLost,
  ofGroup,
  prove,
  slowJobs,
  startedIn,
  stopsWell
} from "../Steps.js"
import { survive } from "../Survival.js"

/** Records a migration of a newer release. */
const newerMigration = (deployment: Deployment.Deployment, oldestCode: string) =>
  deployment.query(
    `insert into nightshift.migration (number, name, checksum, oldest_code, applied_at, applied_by)
     values (2, '0002_future', 'unknown', '${oldestCode}', pg_catalog.clock_timestamp(), '${oldestCode}')`
  )

export const cases: ReadonlyArray<FaultCase> = ofGroup("versions", [
  {
    name: "two releases of an app at once: a newer payload version and a new kind",
    promise: `${nothingLost}; the older process returns what it cannot read, and the newer one runs it`,
    recoveryLimit: [],
    operatorSees: "The jobs' histories say that the older process has no handler",
    run: survive({
      pods: 1,
      fault: (deployment) =>
        Effect.gen(function* () {
          const old = yield* first(deployment)
          const newer = yield* deployment.startPod({ env: { FAULT_RELEASE: "2" } })
          // While the newer pod is stopped, only the older one can claim.
          yield* newer.signal("SIGSTOP")
          const ids = yield* deployment.enqueue(
            [
              { kind: "evolving", payload: { ms: 1, release: 2 } },
              { kind: "newcomer", payload: { ms: 1 } }
            ],
            old
          )
          const returned = yield* Deployment.until(
            "the older process returns them",
            deployment.query<{ error: string }>(
              "select last_error as error from nightshift.job where id = any($1) and unknown_since is not null order by kind",
              [ids]
            ),
            (rows) => rows.length === ids.length
          )
          yield* newer.signal("SIGCONT")
          yield* startedIn(deployment, newer, ids)
          // The rollout ends.
          yield* stopsWell(old)
          return ["the older process exits with 0", ...returned.map(({ error }) => `last error: ${error}`)]
        })
    })
  },
  {
    name: "rollout of a newer release, process by process, under load",
    promise: `${nothingLost}; payloads of the older version are upcast`,
    recoveryLimit: [],
    operatorSees: "Each process exits with 0",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const former = [...deployment.pods]
          // Their queue is paused until the rollout is over, so that the newer pods find payloads of the older version.
          const pause = (pod: Deployment.Pod, paused: boolean) =>
            Deployment.until(
              "the pause",
              pod.request("PATCH", "/api/v1/queues/hostile", { paused }),
              ({ status }) => status === 200
            )
          yield* pause(yield* first(deployment), true)
          const evolving = { kind: "evolving", queue: "hostile", payload: { ms: 1 } }
          const ids = yield* deployment.enqueue(Array.from({ length: 10 }, () => evolving))
          for (const old of former) {
            yield* deployment.startPod({ env: { FAULT_RELEASE: "2" } })
            yield* stopsWell(old)
          }
          const newer = deployment.pods.filter((pod) => !former.includes(pod))
          yield* Effect.forEach(newer.slice(0, 1), (pod) => pause(pod, false))
          const ran = yield* Deployment.until(
            "the newer processes run them",
            Effect.sync(() => deployment.events().filter(({ event, job }) => event === "end" && ids.includes(job))),
            (events) => events.length >= ids.length
          )
          const pids = new Set(newer.map(({ pid }) => pid))
          yield* prove(
            "only newer processes ran them",
            ran.every(({ pid }) => pids.has(pid))
          )
          return ["exit code 0 of each process", `${ran.length} payloads of the older version upcast`]
        })
    })
  },
  {
    name: "older processes on a newer schema that admits them",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "/readyz is 200; the doctor warns of migrations of a newer release",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          yield* deployment.query("alter table nightshift.job add column future text default 'x'")
          yield* newerMigration(deployment, "0.1.0")
          yield* deployment.startPod()
          yield* deployment.enqueue(slowJobs(5, 10))
          return [
            yield* (yield* first(deployment)).untilReadyz(200),
            yield* doctorSays(deployment, "schema", "warn", /0002_future/)
          ]
        })
    })
  },
  {
    name: "a newer schema that needs a newer release, then rolled back",
    promise: `${nothingLost}; a process that starts refuses to run`,
    recoveryLimit: [],
    operatorSees: "/readyz is 503 and names the release; a process that starts exits and says the same",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          yield* newerMigration(deployment, "99.0.0")
          const saw = yield* (yield* first(deployment)).untilReadyz(503, /requires nightshift 99/)
          const { code, stderr } = yield* deployment.serveToEnd()
          const refusal = /needs nightshift 99.0.0 or later[^\n]*/.exec(stderr)?.[0]
          if (code === 0 || refusal === undefined)
            return yield* Effect.fail(new Error(`exit ${code}: ${stderr.slice(-500)}`))
          yield* deployment.query("delete from nightshift.migration where number = 2")
          return [saw, `exit code ${code}: ${refusal}`]
        })
    })
  },
  {
    name: "five processes start at once on an empty database",
    promise: `${nothingLost}; the schema is created once and no process fails`,
    recoveryLimit: [],
    operatorSees: "One process logs the applied migration",
    run: survive({
      pods: 5,
      database: TestDatabase.empty,
      fault: (deployment) =>
        Effect.map(Effect.raceAll(deployment.pods.map((pod) => pod.logged(/applied migration \w+/))), (saw) => [saw])
    })
  },
  {
    name: "kill -9 of a process in the middle of its migration",
    promise: `The database is unchanged, and the next process migrates it. ${nothingLost}`,
    recoveryLimit: [],
    operatorSees: "The next process logs the applied migration",
    run: survive({
      pods: 1,
      database: TestDatabase.empty,
      prepare: (deployment) =>
        Effect.scoped(
          Effect.gen(function* () {
            // A concurrent migration holds the lock, so the pod stops in its transaction.
            yield* deployment.query("create schema nightshift")
            yield* deployment.query(
              `create table nightshift.migration (number int primary key, name text not null, checksum text not null,
                 oldest_code text not null, applied_at timestamptz not null, applied_by text not null)`
            )
            const other = yield* Effect.acquireRelease(
              Effect.promise(async () => {
                const client = new pg.Client({ connectionString: deployment.databaseUrl })
                await client.connect()
                await client.query("begin; lock table nightshift.migration in share row exclusive mode")
                return client
              }),
              (client) => Effect.promise(() => client.end())
            )
            const victim = yield* Effect.fork(Effect.either(deployment.startPod()))
            yield* Deployment.until(
              "the process waits for the lock",
              deployment.query<{ pid: number }>("select pid from pg_stat_activity where wait_event_type = 'Lock'"),
              (rows) => rows.length > 0
            )
            yield* Effect.forEach(deployment.starting(), (running) => running.signal("SIGKILL"))
            yield* victim
            yield* Effect.promise(() => other.query("rollback"))
          })
        ),
      fault: (deployment) =>
        Effect.gen(function* () {
          return [yield* (yield* first(deployment)).logged(/applied migration \w+/)]
        })
    })
  },
  {
    name: "an index dropped by hand",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "The doctor's check `schema` fails and names the index",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          yield* deployment.query("drop index nightshift.job_key")
          return [yield* doctorSays(deployment, "schema", "fail", /job_key/)]
        })
    })
  },
  {
    name: "a schema of an unreleased version",
    promise: "A process refuses to start and says what to do; processes on the right schema are not affected",
    recoveryLimit: [],
    operatorSees: "Exit code 1 with the way out",
    run: Effect.gen(function* () {
      const old = Redacted.value(yield* TestDatabase.migrated)
      yield* Deployment.query(old)("update nightshift.migration set name = '0001_job', checksum = 'old'")
      return yield* survive({
        pods: 1,
        fault: (deployment) =>
          Effect.gen(function* () {
            const { code, stderr } = yield* deployment.serveToEnd({ DATABASE_URL: old })
            const refusal = /created by an unreleased version[^\n]*/.exec(stderr)?.[0]
            if (code === 0 || refusal === undefined)
              return yield* Effect.fail(new Error(`exit ${code}: ${stderr.slice(-500)}`))
            return [`exit code ${code}: ${refusal.slice(0, 160)}`]
          })
      })
    })
  },
  {
    name: "processes with different heartbeat settings: one is declared dead while it works",
    promise: `${nothingLost}; results of the process that lost its jobs are discarded`,
    recoveryLimit: crashRecovery,
    operatorSees: "Rescued jobs in the log; nightshift_stale_ends_total rises",
    run: survive({
      pods: 1,
      fault: (deployment) =>
        Effect.gen(function* () {
          const slow = yield* deployment.startPod({
            env: { QUEUE_HEARTBEAT: "60s", QUEUE_STALE_AFTER: "300s" }
          })
          yield* deployment.enqueue(slowJobs(6, 2 * millisOf("QUEUE_STALE_AFTER")), slow)
          // It renews its leases less often than the other pod expects.
          return yield* deployment.away(
            [slow],
            Effect.gen(function* () {
              const saw = yield* (yield* first(deployment)).logged(/re(?:ap|scu)er recover: [^"]+/)
              yield* slow.signal("SIGTERM")
              yield* slow.finished
              return [saw]
            })
          )
        })
    })
  }
])
