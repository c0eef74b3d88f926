import { execFileSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { rmSync } from "node:fs"
import { join } from "node:path"
import { Effect, Redacted, Schedule, type Scope } from "effect"
import pg from "pg"
import * as Nightshift from "../../support/Nightshift.js"
import * as Deployment from "../Deployment.js"
import { type FaultCase, Unavailable } from "../FaultCase.js"
import * as FaultServer from "../FaultServer.js"
import { connectionRecovery, crashRecovery, cutConnections, first, nothingLost, ofGroup, slowJobs } from "../Steps.js"
import { type Story, survive } from "../Survival.js"

/** Runs a story on a server of its own. */
const onServer = (
  fault: (server: FaultServer.FaultServer, deployment: Deployment.Deployment) => ReturnType<Story["fault"]>,
  options: Omit<Story, "fault" | "database"> & { readonly server?: Parameters<typeof FaultServer.make>[0] } = {}
) =>
  Effect.flatMap(FaultServer.make(options.server), (server) =>
    survive({ ...options, database: Effect.succeed(server.url), fault: (deployment) => fault(server, deployment) })
  )

const away = /the database (is not responding|does not answer writes)/

/** Stops the server by a signal, waits until an operator sees it, and starts it again. */
const stopped = (signal: NodeJS.Signals, awayMillis = 0) =>
  onServer((server, deployment) =>
    Effect.gen(function* () {
      yield* server.signal(signal)
      yield* server.ended
      const saw = yield* (yield* first(deployment)).untilReadyz(503, away)
      yield* Effect.sleep(awayMillis)
      yield* server.start
      return [saw]
    })
  )

/** Holds a connection of another program until the Scope closes. */
const otherProgram = (url: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: url, application_name: "other" })
      client.on("error", () => {})
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end().catch(() => {}))
  )

/** Takes connections until the server refuses more. */
const takeConnections = (url: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const clients: Array<pg.Client> = []
      for (;;) {
        const client = new pg.Client({ connectionString: url, application_name: "other" })
        client.on("error", () => {})
        try {
          await client.connect()
          clients.push(client)
        } catch {
          return clients
        }
      }
    }),
    (clients) => Effect.promise(() => Promise.all(clients.map((client) => client.end().catch(() => {}))))
  )

const reload = (deployment: Deployment.Deployment, setting: string) =>
  Effect.zipRight(deployment.query(`alter system ${setting}`), deployment.query("select pg_reload_conf()"))

/** Repeats a statement of an operator for some seconds. */
const during = (seconds: number, act: Effect.Effect<unknown, Error>, everyMillis: number) =>
  Effect.repeat(Effect.ignore(act), Schedule.spaced(everyMillis).pipe(Schedule.upTo(`${seconds} seconds`)))

/** Mounts a small file system for the server's data. */
const smallDisk: Effect.Effect<string, Unavailable, Scope.Scope> = Effect.flatMap(Nightshift.folder, (folder) =>
  Effect.acquireRelease(
    Effect.try({
      try: () => {
        execFileSync("mount", ["-t", "tmpfs", "-o", "size=300m,mode=1777", "tmpfs", folder], { stdio: "pipe" })
        return folder
      },
      catch: () => new Unavailable({ reason: "mounting a small file system needs root" })
    }),
    () => Effect.sync(() => execFileSync("umount", ["-l", folder]))
  )
)

/** Makes clock_timestamp() of the database differ by this much. */
const setClock = (deployment: Deployment.Deployment, seconds: number) =>
  deployment.query(
    `create or replace function public.clock_timestamp() returns timestamptz language sql volatile
     as $$ select pg_catalog.clock_timestamp() + interval '${seconds} seconds' $$`
  )

const steppedClock = (seconds: number) =>
  survive({
    prepare: (deployment) =>
      Effect.gen(function* () {
        const [row] = yield* deployment.query<{ name: string }>("select current_database() as name")
        yield* setClock(deployment, 0)
        yield* deployment.query(`alter database ${row?.name} set search_path to public, pg_catalog`)
      }),
    fault: (deployment) =>
      Effect.gen(function* () {
        yield* setClock(deployment, seconds)
        // Pods sample the clock at their start and every 30 seconds, so this one differs from the others by the step.
        const skewed = yield* deployment.startPod({ takesLoad: false })
        yield* deployment.enqueue(slowJobs(10, 500), skewed)
        yield* Effect.sleep("5 seconds")
        const { body } = yield* Deployment.until(
          "metrics",
          skewed.request("GET", "/metrics"),
          ({ status }) => status === 200
        )
        yield* setClock(deployment, 0)
        const rescued = yield* deployment.query(`select from "${deployment.schema}".job where crash_count > 0`)
        if (rescued.length > 0) return yield* Effect.fail(new Error(`${rescued.length} jobs of live pods were rescued`))
        return [/^nightshift_clock_offset_seconds\S* \S+/m.exec(body)?.[0] ?? "no clock offset in /metrics"]
      })
  })

export const cases: ReadonlyArray<FaultCase> = ofGroup("server", [
  {
    name: "PostgreSQL stopped fast and started again",
    promise: nothingLost,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "/readyz is 503 and names the database",
    inLongRun: true,
    run: stopped("SIGINT")
  },
  {
    name: "PostgreSQL stopped immediately, started in crash recovery",
    promise: nothingLost,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "/readyz is 503 and names the database",
    run: stopped("SIGQUIT")
  },
  {
    name: "PostgreSQL killed with -9, started in crash recovery",
    promise: nothingLost,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "/readyz is 503 and names the database",
    run: stopped("SIGKILL")
  },
  {
    name: "PostgreSQL away for 30 seconds",
    promise: `${nothingLost}; no pod exits`,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "/readyz is 503 and names the database",
    run: stopped("SIGINT", 30_000)
  },
  {
    name: "one backend killed with -9, all connections reset by crash recovery",
    promise: nothingLost,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "Failed steps in the log while the server recovers",
    run: onServer((_, deployment) =>
      Effect.gen(function* () {
        const [row] = yield* deployment.query<{ pid: number }>(
          "select pid from pg_stat_activity where application_name like 'nightshift%' limit 1"
        )
        process.kill(row?.pid ?? 0, "SIGKILL")
        yield* Deployment.until("the server is back", deployment.query("select 1"), (rows) => rows.length === 1)
        return []
      })
    )
  },
  {
    name: "PostgreSQL frozen for 20 seconds (SIGSTOP)",
    promise: `${nothingLost}; no pod exits`,
    recoveryLimit: [...crashRecovery, ...connectionRecovery],
    operatorSees: "/readyz is 503; the log says that statements were not answered and their connections closed",
    run: onServer((server, deployment) =>
      Effect.gen(function* () {
        const pod = yield* first(deployment)
        return yield* Effect.scoped(
          Effect.gen(function* () {
            yield* server.frozen
            const saw = yield* pod.untilReadyz(503, away)
            yield* Effect.sleep("15 seconds")
            return [saw, yield* pod.logged(/PostgreSQL did not answer \d+ statements[^"]+/)]
          })
        )
      })
    )
  },
  {
    name: "PostgreSQL read-only, then writable again",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "/readyz is 503: the database is read-only; the doctor's check `writes` fails",
    run: onServer((_, deployment) =>
      Effect.gen(function* () {
        yield* reload(deployment, "set default_transaction_read_only = on")
        const saw = yield* (yield* first(deployment)).untilReadyz(503, /read-only/)
        const { stdout } = yield* deployment.command("doctor", "--json")
        const { findings } = JSON.parse(stdout) as { findings: Array<{ check: string; status: string; found: string }> }
        const writes = findings.find(({ check }) => check === "writes")
        yield* Deployment.query(`${deployment.databaseUrl}?options=-c%20default_transaction_read_only%3Doff`)(
          "alter system reset default_transaction_read_only"
        )
        yield* deployment.query("select pg_reload_conf()")
        return [saw, `doctor: writes ${writes?.status}: ${writes?.found}`]
      })
    )
  },
  {
    name: "disk full, then freed",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Enqueue requests answer 503; the log names the full disk; /readyz is 503 if heartbeats fail, too",
    run: Effect.gen(function* () {
      const directory = yield* smallDisk
      const ballast = join(directory, "ballast")
      return yield* onServer(
        (_, deployment) =>
          Effect.gen(function* () {
            // Fill what is left, as a growing log file would, and store jobs that need more room than there is.
            execFileSync("sh", ["-c", `dd if=/dev/zero of=${ballast} bs=64k 2>/dev/null || true`])
            const large = { kind: "work", payload: { ms: 1, text: randomBytes(50_000).toString("hex") } }
            const storing = yield* Effect.fork(deployment.enqueue(Array.from({ length: 20 }, () => large)))
            const logged = yield* Effect.raceAll(deployment.pods.map((each) => each.logged(/No space left on device/)))
            rmSync(ballast)
            yield* storing
            return [`enqueue: ${deployment.refusals.at(-1)?.slice(0, 120)}`, logged]
          }),
        { server: { directory, settings: { max_wal_size: "64MB", min_wal_size: "32MB" } } }
      )
    })
  },
  {
    name: "max_connections taken by other programs",
    promise: nothingLost,
    recoveryLimit: ["DATABASE_CONNECT_TIMEOUT", ...crashRecovery],
    operatorSees: "/readyz is 503 if the pod has no connection left; errors in the log name the limit",
    run: onServer(
      (_, deployment) =>
        Effect.gen(function* () {
          const pod = yield* first(deployment)
          return yield* Effect.scoped(
            Effect.gen(function* () {
              const holder = yield* otherProgram(deployment.databaseUrl)
              yield* cutConnections(deployment)
              yield* takeConnections(deployment.databaseUrl)
              // Pods that reconnected in between lose their connections again, and other programs take them.
              yield* Effect.promise(() =>
                holder.query(
                  "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'nightshift%'"
                )
              )
              yield* takeConnections(deployment.databaseUrl)
              return [yield* pod.untilReadyz(503)]
            })
          )
        }),
      { server: { settings: { max_connections: "40" } } }
    )
  },
  {
    name: "every connection of the pods terminated, again and again",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Retries in the log; /readyz stays or returns to 200",
    inLongRun: true,
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
    promise: `${nothingLost}; jobs of other processes are found by polling until the listener is back`,
    recoveryLimit: ["QUEUE_POLL"],
    operatorSees: "Nothing but a short delay; /readyz stays 200",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const cut = deployment.query(
            `select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and application_name like 'nightshift%' and query ilike 'listen%'`
          )
          yield* during(3, cut, 300)
          return [yield* (yield* first(deployment)).untilReadyz(200)]
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
            yield* Effect.sleep("5 seconds")
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
    name: "password changed, then changed back",
    promise: nothingLost,
    recoveryLimit: ["DATABASE_CONNECT_TIMEOUT", ...crashRecovery],
    operatorSees: "/readyz is 503 when the pods' connections are gone",
    run: onServer((server, deployment) =>
      Effect.gen(function* () {
        const url = new URL(Redacted.value(server.url))
        return yield* Effect.scoped(
          Effect.gen(function* () {
            const admin = yield* otherProgram(deployment.databaseUrl)
            yield* Effect.promise(() => admin.query("alter role postgres password 'another'"))
            yield* Effect.promise(() =>
              admin.query(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'nightshift%'"
              )
            )
            const saw = yield* (yield* first(deployment)).untilReadyz(503)
            yield* Effect.promise(() => admin.query(`alter role postgres password '${url.password}'`))
            return [saw]
          })
        )
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
  },
  {
    name: "the server's clock set back two minutes, then right, while a pod starts",
    promise: `${nothingLost}; no job is rescued while its pod is alive`,
    recoveryLimit: crashRecovery,
    operatorSees: "The clock offset in /metrics",
    run: steppedClock(-120)
  },
  {
    name: "the server's clock set forward two minutes, then right, while a pod starts",
    promise: `${nothingLost}; no job is rescued while its pod is alive`,
    recoveryLimit: crashRecovery,
    operatorSees: "The clock offset in /metrics",
    run: steppedClock(120)
  },
  {
    name: "the server restarted while pods start",
    promise: `${nothingLost}; pods wait for the database up to DATABASE_BOOT_PATIENCE`,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "The log says that the database is not reachable yet",
    run: onServer((server, deployment) =>
      Effect.gen(function* () {
        yield* server.signal("SIGINT")
        yield* server.ended
        const booting = yield* Effect.fork(deployment.startPod())
        yield* Effect.sleep("3 seconds")
        yield* server.start
        const pod = yield* booting
        return [yield* pod.logged(/database at \S+ not reachable yet[^"]+/)]
      })
    )
  }
])
