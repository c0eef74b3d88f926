import { Effect } from "effect"
import * as Deployment from "../Deployment.js"
import { type FaultCase, millisOf } from "../FaultCase.js"
import {
  crashRecovery,
  cutConnections,
  doctorSays,
  during,
  first,
  hasSetting,
  neverPolls,
  nothingLost,
  ofGroup,
  onServer,
  otherProgram,
  prove,
  reload,
  slowJobs,
  untilListening,
  wokenByNotification
} from "../Steps.js"
import { survive } from "../Survival.js"

/** Deadlocks in the server's log in which a statement other than that of the operator takes part. */
const deadlocksWithPods = (log: string) =>
  log
    .split("deadlock detected")
    .slice(1)
    .filter((detail) => /^\s*Process \d+: (?!do )/im.test(detail.split("HINT:")[0] ?? "")).length

// Faults of single sessions, statements and locks, on a server that otherwise works.

export const cases: ReadonlyArray<FaultCase> = ofGroup("server", [
  {
    name: "every connection of the processes terminated, again and again",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Retries in the log; /readyz stays or returns to 200",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const times = yield* during(4, cutConnections(deployment), 250)
          return [`${times} times`, yield* (yield* first(deployment)).untilReadyz(200)]
        })
    })
  },
  {
    name: "every statement of the processes cancelled, again and again",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Retries in the log; /readyz stays or returns to 200",
    run: onServer((server, deployment) =>
      Effect.gen(function* () {
        const cancel = deployment.query(
          `select pg_cancel_backend(pid) from pg_stat_activity
           where datname = current_database() and application_name like 'nightshift%' and state = 'active'`
        )
        yield* during(4, cancel, 20)
        const cancelled = server.printed().split("canceling statement due to user request").length - 1
        yield* prove("statements were cancelled", cancelled > 0)
        return [`${cancelled} statements cancelled`, yield* (yield* first(deployment)).untilReadyz(200)]
      })
    )
  },
  {
    name: "the listening connection terminated while queries work",
    promise: `${nothingLost}; the processes listen again, look for jobs they missed, and the next job wakes them at once`,
    recoveryLimit: [],
    operatorSees: "Nothing but a short delay; /readyz stays 200",
    run: survive({
      env: neverPolls,
      fault: (deployment) =>
        Effect.gen(function* () {
          const pods = deployment.pods.length
          let cut = 0
          for (let turn = 0; turn < 3; turn += 1) {
            const sessions = yield* untilListening(deployment, pods)
            const ended = yield* deployment.query("select from unnest($1::int[]) pid where pg_terminate_backend(pid)", [
              sessions
            ])
            cut += ended.length
            yield* untilListening(deployment, pods, sessions)
          }
          if (cut !== 3 * pods) return yield* Effect.fail(new Error(`${cut} sessions were cut and not ${3 * pods}`))
          return [
            `${cut} sessions cut`,
            yield* wokenByNotification(deployment),
            yield* (yield* first(deployment)).untilReadyz(200)
          ]
        })
    })
  },
  {
    name: "the job table locked for longer than DATABASE_STATEMENT_TIMEOUT",
    promise: nothingLost,
    recoveryLimit: ["DATABASE_STATEMENT_TIMEOUT", ...crashRecovery],
    operatorSees: "Statement timeouts in the log",
    run: survive({
      fault: (deployment) =>
        Effect.scoped(
          Effect.gen(function* () {
            const holder = yield* otherProgram(deployment.databaseUrl)
            yield* Effect.promise(() =>
              holder.query(`begin; lock table "${deployment.schema}".job in access exclusive mode`)
            )
            const line = /canceling statement due to statement timeout/
            return [yield* Effect.raceAll(deployment.pods.map((pod) => pod.logged(line)))]
          })
        )
    })
  },
  {
    name: "rows of running jobs locked by a forgotten transaction",
    promise: nothingLost,
    recoveryLimit: ["DATABASE_STATEMENT_TIMEOUT", ...crashRecovery],
    operatorSees: "The doctor's check `vacuum` and pg_stat_activity show the transaction; retries in the log",
    run: survive({
      fault: (deployment) =>
        Effect.scoped(
          Effect.gen(function* () {
            yield* deployment.enqueue(slowJobs(4, 1_000))
            const holder = yield* otherProgram(deployment.databaseUrl)
            yield* Effect.promise(() => holder.query("begin"))
            const { rowCount } = yield* Effect.promise(() =>
              holder.query(`select id from "${deployment.schema}".job where status = 'running' for update`)
            )
            yield* prove("rows of running jobs are locked", (rowCount ?? 0) > 0)
            yield* Deployment.until(
              "a process waits for a row",
              deployment.query(
                `select from pg_stat_activity where datname = current_database() and application_name like 'nightshift%'
                   and (select pid from pg_stat_activity where application_name = 'other' and datname = current_database())
                     = any(pg_blocking_pids(pid))`
              ),
              (waiting) => waiting.length > 0
            )
            yield* Effect.sleep(2 * millisOf("DATABASE_STATEMENT_TIMEOUT"))
            return [`${rowCount} rows locked`]
          })
        )
    })
  },
  {
    name: "statement_timeout of 100 ms set by the server's administrator",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Nothing: the processes set their own timeout",
    run: onServer((_, deployment) =>
      Effect.gen(function* () {
        yield* reload(deployment, "set statement_timeout = '100ms'")
        yield* hasSetting(deployment, "statement_timeout", "100ms")
        yield* cutConnections(deployment)
        yield* Effect.sleep("3 seconds")
        return [yield* (yield* first(deployment)).untilReadyz(200)]
      })
    )
  },
  {
    name: "idle connections closed by the server after half a second",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Nothing; /readyz stays or returns to 200",
    run: onServer((server, deployment) =>
      Effect.gen(function* () {
        yield* reload(deployment, "set idle_session_timeout = '500ms'")
        yield* reload(deployment, "set idle_in_transaction_session_timeout = '500ms'")
        yield* hasSetting(deployment, "idle_session_timeout", "500ms")
        yield* cutConnections(deployment)
        yield* Deployment.until(
          "idle connections are closed",
          Effect.sync(server.printed),
          (log) => log.split("due to idle-session timeout").length > 4
        )
        return [yield* (yield* first(deployment)).untilReadyz(200)]
      })
    )
  },
  {
    name: "deadlocks with another program on the job table",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Deadlock errors in the server's log; processes retry",
    run: onServer(
      (server, deployment) =>
        Effect.gen(function* () {
          const lockAll = (order: string) =>
            deployment.query(
              `do $$ declare r record; begin
                 for r in select id from "${deployment.schema}".job where finished_at is null order by id ${order} loop
                   perform from "${deployment.schema}".job where id = r.id for update; perform pg_sleep(0.01);
                 end loop; end $$`
            )
          // Many jobs that end at the same time, so that pods write the results of several rows in one statement.
          const together = deployment.enqueue(slowJobs(30, 200))
          const turn = Effect.all(
            [during(2, lockAll("asc"), 50), during(2, lockAll("desc"), 50), during(2, together, 300)],
            { concurrency: 3 }
          )
          const found = yield* Deployment.until(
            "deadlocks with a process",
            Effect.as(turn, server),
            (each) => deadlocksWithPods(each.printed()) > 0
          )
          return [`${deadlocksWithPods(found.printed())} deadlocks with a process in the server's log`]
        }),
      { server: { settings: { deadlock_timeout: "50ms" } } }
    )
  },
  {
    name: "default isolation serializable, with concurrent writers",
    promise: `${nothingLost}; transactional handlers retry serialization failures`,
    recoveryLimit: crashRecovery,
    operatorSees: "Nothing: processes set the isolation of their own statements",
    run: onServer((_, deployment) =>
      Effect.gen(function* () {
        yield* reload(deployment, "set default_transaction_isolation = 'serializable'")
        yield* hasSetting(deployment, "default_transaction_isolation", "serializable")
        yield* cutConnections(deployment)
        yield* deployment.enqueue(Array.from({ length: 40 }, () => ({ kind: "once", payload: { ms: 5 } })))
        yield* Effect.sleep("2 seconds")
        return [yield* (yield* first(deployment)).untilReadyz(200)]
      })
    )
  },
  {
    name: "a transaction of another program open for the whole time (pinned xmin)",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "The log and the doctor name the transaction as a vacuum blocker",
    run: survive({
      env: { DATABASE_OLD_TRANSACTION: "1s" },
      fault: (deployment) =>
        Effect.scoped(
          Effect.gen(function* () {
            const holder = yield* otherProgram(deployment.databaseUrl)
            yield* Effect.promise(() => holder.query("begin isolation level repeatable read; select 1"))
            yield* Effect.sleep("2 seconds")
            const pinned = /session \d+ \(other, user \w+, idle in transaction\) has blocked vacuum/
            const said = yield* doctorSays(deployment, "vacuum", "warn", pinned)
            // A pod looks every minute.
            const line = /a transaction has been open for [^"]+\(session \d+, other\)[^"]*/
            return [said, yield* Effect.raceAll(deployment.pods.map((pod) => pod.logged(line)))]
          })
        )
    })
  }
])
