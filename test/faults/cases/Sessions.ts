import { Effect } from "effect"
import { type FaultCase, millisOf } from "../FaultCase.js"
import {
  crashRecovery,
  cutConnections,
  during,
  first,
  neverPolls,
  nothingLost,
  ofGroup,
  onServer,
  otherProgram,
  reload,
  untilListening,
  wokenByNotification
} from "../Steps.js"
import { survive } from "../Survival.js"

// Faults of single sessions, statements and locks, on a server that otherwise works.

export const cases: ReadonlyArray<FaultCase> = ofGroup("server", [
  {
    name: "every connection of the pods terminated, again and again",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Retries in the log; /readyz stays or returns to 200",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          yield* during(4, cutConnections(deployment), 250)
          return [yield* (yield* first(deployment)).untilReadyz(200)]
        })
    })
  },
  {
    name: "every statement of the pods cancelled, again and again",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Retries in the log; /readyz stays or returns to 200",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const cancel = deployment.query(
            `select pg_cancel_backend(pid) from pg_stat_activity
             where datname = current_database() and application_name like 'nightshift%' and state = 'active'`
          )
          yield* during(4, cancel, 20)
          return [yield* (yield* first(deployment)).untilReadyz(200)]
        })
    })
  },
  {
    name: "the listening connection terminated while queries work",
    promise: `${nothingLost}; the pods listen again, look for jobs they missed, and the next job wakes them at once`,
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
            const holder = yield* otherProgram(deployment.databaseUrl)
            yield* Effect.promise(() => holder.query("begin"))
            yield* Effect.promise(() =>
              holder.query(`select id from "${deployment.schema}".job where finished_at is null for update`)
            )
            yield* Effect.sleep(2 * millisOf("DATABASE_STATEMENT_TIMEOUT"))
            return []
          })
        )
    })
  },
  {
    name: "statement_timeout of 100 ms set by the server's administrator",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Nothing: the pods set their own timeout",
    run: onServer((_, deployment) =>
      Effect.gen(function* () {
        yield* reload(deployment, "set statement_timeout = '100ms'")
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
    run: onServer((_, deployment) =>
      Effect.gen(function* () {
        yield* reload(deployment, "set idle_session_timeout = '500ms'")
        yield* reload(deployment, "set idle_in_transaction_session_timeout = '500ms'")
        yield* cutConnections(deployment)
        yield* Effect.sleep("4 seconds")
        return [yield* (yield* first(deployment)).untilReadyz(200)]
      })
    )
  },
  {
    name: "deadlocks with another program on the job table",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Deadlock errors in the server's log; pods retry",
    run: onServer(
      (_, deployment) =>
        Effect.gen(function* () {
          const lockAll = (order: string) =>
            deployment.query(
              `do $$ declare r record; begin
                 for r in select id from "${deployment.schema}".job where finished_at is null order by id ${order} loop
                   perform from "${deployment.schema}".job where id = r.id for update; perform pg_sleep(0.01);
                 end loop; end $$`
            )
          yield* Effect.all([during(4, lockAll("asc"), 50), during(4, lockAll("desc"), 50)], { concurrency: 2 })
          const [row] = yield* deployment.query<{ deadlocks: number }>(
            "select deadlocks::int from pg_stat_database where datname = current_database()"
          )
          return [`pg_stat_database: ${row?.deadlocks} deadlocks`]
        }),
      { server: { settings: { deadlock_timeout: "50ms" } } }
    )
  },
  {
    name: "default isolation serializable, with concurrent writers",
    promise: `${nothingLost}; transactional handlers retry serialization failures`,
    recoveryLimit: crashRecovery,
    operatorSees: "Nothing: pods set the isolation of their own statements",
    run: onServer((_, deployment) =>
      Effect.gen(function* () {
        yield* reload(deployment, "set default_transaction_isolation = 'serializable'")
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
            const { stdout } = yield* deployment.command("doctor", "--json")
            const { findings } = JSON.parse(stdout) as {
              findings: Array<{ check: string; status: string; found: string }>
            }
            const vacuum = findings.find(({ check }) => check === "vacuum")
            return [`doctor: vacuum ${vacuum?.status}: ${vacuum?.found.slice(0, 120)}`]
          })
        )
    })
  }
])
