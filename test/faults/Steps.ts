import { Effect, Schedule } from "effect"
import pg from "pg"
import type { Deployment, Pod, Wanted } from "./Deployment.js"
import { until } from "./Deployment.js"
import type { FaultCase, Group } from "./FaultCase.js"
import * as FaultServer from "./FaultServer.js"
import { type Story, survive } from "./Survival.js"

// Steps that several cases share.

/** Adds the group to the cases of one file. */
export const ofGroup = (group: Group, cases: ReadonlyArray<Omit<FaultCase, "group">>): ReadonlyArray<FaultCase> =>
  cases.map((each) => ({ ...each, group }))

/** The promise of most cases. */
export const nothingLost =
  "No acknowledged job is lost, each ends once, and transactional effects are committed exactly once"

/** Jobs of a crashed or unreachable pod wait this long for another pod. */
export const crashRecovery = ["QUEUE_STALE_AFTER", "QUEUE_REAPER_INTERVAL"] as const

/** A connection that does not answer is replaced after this long. */
export const connectionRecovery = ["DATABASE_STATEMENT_TIMEOUT", "DATABASE_CONNECT_TIMEOUT"] as const

export const first = ({ pods }: Deployment): Effect.Effect<Pod> => nth(pods, 0)

export const second = ({ pods }: Deployment): Effect.Effect<Pod> => nth(pods, 1)

const nth = (pods: ReadonlyArray<Pod>, index: number) => {
  const pod = pods[index]
  return pod === undefined ? Effect.dieMessage(`process ${index} was not started`) : Effect.succeed(pod)
}

/** The pod that leads the cluster, and another one. */
export const byLead = (
  deployment: Deployment
): Effect.Effect<{ readonly leader: Pod; readonly follower: Pod }, Error> =>
  Effect.gen(function* () {
    const [row] = yield* until(
      "a leader",
      deployment.query<{ os_pid: number }>(
        `select os_pid from "${deployment.schema}".leader l join "${deployment.schema}".pod p on p.id = l.pod_id`
      ),
      (rows) => rows.length === 1
    )
    const leader = deployment.pods.find(({ pid }) => pid === row?.os_pid)
    const follower = deployment.pods.find(({ pid }) => pid !== row?.os_pid)
    if (leader === undefined || follower === undefined)
      return yield* Effect.fail(new Error("the leader is no process of ours"))
    return { leader, follower }
  })

export const slowJobs = (count: number, ms: number): ReadonlyArray<Wanted> =>
  Array.from({ length: count }, () => ({ kind: "work", payload: { ms } }))

/** Transactional jobs that hold a lock on their own row while they run. */
export const lockingJobs = (count: number): ReadonlyArray<Wanted> =>
  Array.from({ length: count }, () => ({ kind: "once", payload: { ms: 3_000, text: "locks" } }))

/** A job that harms its process in its first runs; see fixtures/fault-app.mjs. */
export const hostile = (act: string, options: { readonly ms?: number; readonly times?: number } = {}): Wanted => ({
  kind: "hostile",
  payload: { act, ms: options.ms ?? 0, times: options.times ?? 1 }
})

/** Waits until a run of the job has started. */
export const started = (deployment: Deployment, id: string | undefined) =>
  until("a run starts", Effect.sync(deployment.events), (events) => events.some(({ job }) => job === id))

/** Waits until the pod runs at least one of the jobs, and returns those it runs. */
export const startedIn = (deployment: Deployment, { pid }: Pod, ids: ReadonlyArray<string>) =>
  Effect.map(
    until(
      `process ${pid} runs one of the jobs`,
      Effect.sync(() => deployment.events().filter((each) => each.pid === pid && ids.includes(each.job))),
      (events) => events.length > 0
    ),
    (events) => events.map(({ job }) => job)
  )

/** Fails the case unless its fault took place, or what must be seen was seen. */
export const prove = (what: string, holds: boolean): Effect.Effect<void, Error> =>
  holds ? Effect.void : Effect.fail(new Error(`not so: ${what}`))

/** Asks the pod to stop; it must exit with 0. */
export const stopsWell = (pod: Pod) =>
  Effect.gen(function* () {
    yield* pod.signal("SIGTERM")
    const { code, signal } = yield* pod.finished
    yield* prove(`a process exits with 0, and not ${code ?? signal}`, code === 0)
  })

/** Terminates every connection of the pods and returns how many there were, at least one. */
export const cutConnections = (deployment: Deployment) =>
  Effect.gen(function* () {
    const cut = yield* deployment.query(
      `select from pg_stat_activity where datname = current_database() and application_name like 'nightshift%'
         and pid <> pg_backend_pid() and pg_terminate_backend(pid)`
    )
    yield* prove("connections of the processes were cut", cut.length > 0)
    return cut.length
  })

/** Checks that new sessions have this setting. */
export const hasSetting = (deployment: Deployment, name: string, value: string) =>
  Effect.flatMap(deployment.query<{ value: string }>("select current_setting($1) as value", [name]), ([row]) =>
    prove(`new sessions have ${name} = ${value}, and not ${row?.value}`, row?.value === value)
  )

/** What the doctor says about one check; it must have this status and match the pattern. */
export const doctorSays = (deployment: Deployment, check: string, status: "warn" | "fail", pattern: RegExp) =>
  Effect.gen(function* () {
    const { stdout } = yield* deployment.command("doctor", "--json")
    const { findings } = JSON.parse(stdout) as { findings: Array<{ check: string; status: string; found: string }> }
    const finding = findings.find((each) => each.check === check)
    const said = `doctor: ${check} ${finding?.status}: ${finding?.found.slice(0, 160)}`
    yield* prove(
      `the check ${check} has the status ${status} and matches ${pattern}: ${said}`,
      finding?.status === status && pattern.test(finding.found)
    )
    return said
  })

/** So long that no job of a case is found by polling. */
export const neverPolls = { QUEUE_POLL: "1h" }

const listeners = (deployment: Deployment) =>
  Effect.map(
    deployment.query<{ pid: number }>(
      `select pid from pg_stat_activity
       where datname = current_database() and application_name = 'nightshift listener' and state = 'idle'`
    ),
    (rows) => rows.map(({ pid }) => pid)
  )

/** Waits until each of the pods listens, and returns the backends of their sessions. */
export const untilListening = (deployment: Deployment, pods: number, except: ReadonlyArray<number> = []) =>
  until(
    `${pods} processes listen`,
    Effect.map(listeners(deployment), (pids) => pids.filter((pid) => !except.includes(pid))),
    (pids) => pids.length === pods
  )

/**
 * Another program enqueues jobs, one after another, while the pods' queue is idle. Pods that never poll start them only if
 * the notifications arrive.
 */
export const wokenByNotification = (deployment: Deployment) =>
  Effect.gen(function* () {
    const turns = 3
    for (let turn = 0; turn < turns; turn += 1) {
      yield* started(deployment, yield* deployment.enqueueBySql("quiet", { ms: 1 }))
      // The query that follows a claim must not be what finds the next job.
      yield* Effect.sleep("500 millis")
    }
    return `${turns} notifications woke a process`
  })

/** Runs a case on a separate server. */
export const onServer = (
  fault: (server: FaultServer.FaultServer, deployment: Deployment) => ReturnType<Story["fault"]>,
  options: Omit<Story, "fault" | "database"> & { readonly server?: Parameters<typeof FaultServer.make>[0] } = {}
) =>
  Effect.flatMap(FaultServer.make(options.server), (server) =>
    survive({ ...options, database: Effect.succeed(server.url), fault: (deployment) => fault(server, deployment) })
  )

/** Holds a connection of another program until the Scope closes. */
export const otherProgram = (url: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: url, application_name: "other" })
      client.on("error", () => {})
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end().catch(() => {}))
  )

export const reload = (deployment: Deployment, setting: string) =>
  Effect.zipRight(deployment.query(`alter system ${setting}`), deployment.query("select pg_reload_conf()"))

/** Repeats a statement of an operator for some seconds; returns how often it succeeded, at least once. */
export const during = (seconds: number, act: Effect.Effect<unknown, Error>, everyMillis: number) =>
  Effect.gen(function* () {
    let times = 0
    const counted = Effect.ignore(Effect.tap(act, () => Effect.sync(() => (times += 1))))
    yield* Effect.repeat(counted, Schedule.spaced(everyMillis).pipe(Schedule.upTo(`${seconds} seconds`)))
    yield* prove("the statement of the operator succeeded", times > 0)
    return times
  })

/** The schedule of the app fires every second; no tick fires twice. */
export const ticksOnce = (deployment: Deployment) =>
  Effect.gen(function* () {
    const twice = yield* deployment.query(
      `select from "${deployment.schema}".job where kind = 'tick' group by meta->>'tick' having count(*) > 1`
    )
    if (twice.length > 0) return yield* Effect.fail(new Error(`${twice.length} ticks fired twice`))
    return []
  })
