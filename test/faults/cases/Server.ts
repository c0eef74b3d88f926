import { execFileSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { rmSync } from "node:fs"
import { join } from "node:path"
import { Effect, Redacted, type Scope } from "effect"
import pg from "pg"
import * as Nightshift from "../../support/Nightshift.js"
import * as Deployment from "../Deployment.js"
import { type FaultCase, patient, Unavailable } from "../FaultCase.js"
import {
  connectionRecovery,
  crashRecovery,
  cutConnections,
  doctorSays,
  first,
  nothingLost,
  ofGroup,
  onServer,
  otherProgram,
  prove,
  reload,
  slowJobs
} from "../Steps.js"
import { survive } from "../Survival.js"

const notReachable = /database at \S+ not reachable yet[^"]+/
const away = /the database (is not responding|does not answer writes)/

/** Stops the server by a signal, waits until an operator sees it, and starts it again. */
const stopped = (signal: NodeJS.Signals, awayMillis = 0) =>
  onServer(
    (server, deployment) =>
      Effect.gen(function* () {
        yield* server.signal(signal)
        yield* server.ended
        const saw = yield* (yield* first(deployment)).untilReadyz(503, away)
        yield* Effect.sleep(awayMillis)
        yield* server.start
        return [saw]
      }),
    { losesLeases: true }
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
    env: patient,
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
        if (rescued.length > 0)
          return yield* Effect.fail(new Error(`${rescued.length} jobs of live processes were rescued`))
        const [line = "", offset] = /^nightshift_clock_offset_seconds\S* (\S+)/m.exec(body) ?? []
        yield* prove(`the offset is about ${seconds} s: "${line}"`, Math.abs(Number(offset) - seconds) < 30)
        return [line]
      })
  })

export const cases: ReadonlyArray<FaultCase> = ofGroup("server", [
  {
    name: "PostgreSQL stopped fast and started again",
    promise: nothingLost,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "/readyz is 503 and names the database",
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
    promise: `${nothingLost}; no process exits`,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "/readyz is 503 and names the database",
    run: stopped("SIGINT", 30_000)
  },
  {
    name: "one backend killed with -9, all connections reset by crash recovery",
    promise: nothingLost,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "Failed steps in the log while the server recovers",
    run: onServer((server, deployment) =>
      Effect.gen(function* () {
        const [row] = yield* Deployment.until(
          "a backend of a process",
          deployment.query<{ pid: number }>(
            "select pid from pg_stat_activity where application_name like 'nightshift%' limit 1"
          ),
          (rows) => rows.length === 1
        )
        process.kill(row?.pid ?? 0, "SIGKILL")
        yield* Deployment.until("crash recovery", Effect.sync(server.printed), (log) =>
          log.includes("all server processes terminated; reinitializing")
        )
        yield* Deployment.until("the server is back", deployment.query("select 1"), (rows) => rows.length === 1)
        return ["server log: all server processes terminated; reinitializing"]
      })
    )
  },
  {
    name: "PostgreSQL frozen for 20 seconds (SIGSTOP)",
    promise: `${nothingLost}; no process exits`,
    recoveryLimit: [...crashRecovery, ...connectionRecovery],
    operatorSees: "/readyz is 503; the log says that statements were not answered and their connections closed",
    run: onServer(
      (server, deployment) =>
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
        }),
      { losesLeases: true }
    )
  },
  {
    name: "PostgreSQL read-only, then writable again",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "/readyz is 503: the database is read-only; the doctor's check `writes` fails",
    run: onServer(
      (_, deployment) =>
        Effect.gen(function* () {
          yield* reload(deployment, "set default_transaction_read_only = on")
          const saw = yield* (yield* first(deployment)).untilReadyz(503, /read-only/)
          const said = yield* doctorSays(deployment, "writes", "fail", /read-only/)
          yield* Deployment.query(`${deployment.databaseUrl}?options=-c%20default_transaction_read_only%3Doff`)(
            "alter system reset default_transaction_read_only"
          )
          yield* deployment.query("select pg_reload_conf()")
          return [saw, said]
        }),
      { losesLeases: true }
    )
  },
  {
    name: "disk full, then freed",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Enqueue requests answer 503; the log names the full disk; /readyz is 503",
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
            const refused = deployment.refusals.find((refusal) => refusal.startsWith("503"))
            yield* prove("an enqueue was refused with 503", refused !== undefined)
            return [`enqueue: ${refused?.slice(0, 120)}`, logged]
          }),
        { losesLeases: true, server: { directory, settings: { max_wal_size: "64MB", min_wal_size: "32MB" } } }
      )
    })
  },
  {
    name: "max_connections taken by other programs",
    promise: nothingLost,
    recoveryLimit: ["DATABASE_CONNECT_TIMEOUT", ...crashRecovery],
    operatorSees: "/readyz is 503 if the process has no connection left; errors in the log name the limit",
    run: onServer(
      (_, deployment) =>
        Effect.gen(function* () {
          const pod = yield* first(deployment)
          return yield* Effect.scoped(
            Effect.gen(function* () {
              const holder = yield* otherProgram(deployment.databaseUrl)
              yield* cutConnections(deployment)
              yield* takeConnections(deployment.databaseUrl)
              // Pods that reconnected in between lose their connections again, until other programs have taken them all.
              const cutAgain = Effect.promise(() =>
                holder.query(
                  "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'nightshift%'"
                )
              )
              yield* Effect.repeat(Effect.zipLeft(cutAgain, takeConnections(deployment.databaseUrl)), {
                until: ({ rowCount }) => rowCount === 0
              })
              return [yield* pod.untilReadyz(503)]
            })
          )
        }),
      { losesLeases: true, server: { settings: { max_connections: "40" } } }
    )
  },
  {
    name: "password changed, then changed back",
    promise: nothingLost,
    recoveryLimit: ["DATABASE_CONNECT_TIMEOUT", ...crashRecovery],
    operatorSees: "/readyz is 503 when the processes' connections are gone",
    run: onServer(
      (server, deployment) =>
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
        }),
      { losesLeases: true }
    )
  },
  {
    name: "the server's clock set back two minutes, then right, while a process starts",
    promise: `${nothingLost}; no job is rescued while its process is alive`,
    recoveryLimit: crashRecovery,
    operatorSees: "The clock offset in /metrics",
    run: steppedClock(-120)
  },
  {
    name: "the server's clock set forward two minutes, then right, while a process starts",
    promise: `${nothingLost}; no job is rescued while its process is alive`,
    recoveryLimit: crashRecovery,
    operatorSees: "The clock offset in /metrics",
    run: steppedClock(120)
  },
  {
    name: "the server restarted while processes start",
    promise: `${nothingLost}; processes wait for the database up to DATABASE_BOOT_TIMEOUT`,
    recoveryLimit: [...crashRecovery, "DATABASE_CONNECT_TIMEOUT"],
    operatorSees: "The log says that the database is not reachable yet",
    run: onServer(
      (server, deployment) =>
        Effect.gen(function* () {
          yield* server.signal("SIGINT")
          yield* server.ended
          const booting = yield* Effect.fork(deployment.startPod())
          yield* Deployment.until("a process waits for the server", Effect.sync(deployment.starting), (pods) =>
            pods.some((pod) => notReachable.test(pod.printed()))
          )
          yield* server.start
          const pod = yield* booting
          return [yield* pod.logged(notReachable)]
        }),
      { losesLeases: true }
    )
  }
])
