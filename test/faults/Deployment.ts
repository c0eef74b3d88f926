import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Deferred, Effect, Fiber, Redacted, Schedule, type Scope } from "effect"
import pg from "pg"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { millisOf, pace, quick } from "./FaultCase.js"
import type { Absence, Attempted, JobRow, RunEvent } from "./HistoryChecker.js"
import { type Pod, token, watch } from "./Pod.js"

export { type Pod, until } from "./Pod.js"

const faultApp = fileURLToPath(new URL("fixtures/fault-app.mjs", import.meta.url))

export interface PodOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly args?: ReadonlyArray<string>
  /** Whether callers may choose it; true by default. */
  readonly takesLoad?: boolean
  /** The command of another release. */
  readonly program?: string
  /** Start it again whenever it exits with an error, as an orchestrator does. */
  readonly restarts?: boolean
}

export interface Wanted {
  readonly kind: string
  readonly payload: Readonly<Record<string, unknown>>
  readonly key?: string
  readonly queue?: string
  readonly subject?: string
  readonly delayMillis?: number
  readonly expected?: Attempted["expected"]
  readonly failures?: number
}

/** A database, pods on it, and a record of every job that a caller enqueued. */
export interface Deployment {
  /** Reaches the database directly, as its owner. */
  readonly databaseUrl: string
  readonly schema: string
  readonly cwd: string
  /** The file to which handlers append their runs. */
  readonly ledger: string
  readonly pods: ReadonlyArray<Pod>
  readonly startPod: (options?: PodOptions) => Effect.Effect<Pod, unknown, Scope.Scope>
  readonly query: <Row extends object>(
    text: string,
    values?: ReadonlyArray<unknown>
  ) => Effect.Effect<Array<Row>, Error>
  /** Enqueues until the jobs are acknowledged; an attempt of unknown outcome is repeated with the same ids. */
  readonly enqueue: (jobs: ReadonlyArray<Wanted>, via?: Pod) => Effect.Effect<ReadonlyArray<string>, Error>
  /** Enqueues as another program does, with the SQL function. */
  readonly enqueueBySql: (kind: string, payload: Wanted["payload"]) => Effect.Effect<string, Error>
  /** Answers other than success to enqueue requests. */
  readonly refusals: ReadonlyArray<string>
  readonly attempted: ReadonlyArray<Attempted>
  readonly acknowledged: ReadonlySet<string>
  readonly rows: Effect.Effect<ReadonlyArray<JobRow>, Error>
  readonly events: () => ReadonlyArray<RunEvent>
  /** When processes could not renew their leases, as far as this test or the handlers caused it. */
  readonly absences: () => ReadonlyArray<Absence>
  /** Records that the pods cannot renew their leases while the effect runs. */
  readonly away: <A, E, R>(pods: ReadonlyArray<Pod>, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Runs `serve` with further settings, for pods that must refuse to start. */
  readonly serveToEnd: (env?: Readonly<Record<string, string>>) => Effect.Effect<Nightshift.Finished>
  /** The processes of pods that do not serve yet. */
  readonly starting: () => ReadonlyArray<Nightshift.Running>
  /** Runs a command line to its end, for example the doctor. */
  readonly command: (...args: ReadonlyArray<string>) => Effect.Effect<Nightshift.Finished>
  /** The same with the command of another release. */
  readonly commandOf: (program: string, ...args: ReadonlyArray<string>) => Effect.Effect<Nightshift.Finished>
  /** The longest start of a pod, until it serves. */
  readonly bootMillis: () => number
  /** Whether a pod ended without writing its last counts. */
  readonly lostCounts: () => boolean
  /** Warnings and errors in the logs of pods that have ended. */
  readonly warnings: () => ReadonlyArray<string>
}

export interface DeploymentOptions {
  /** Where the database is; a fresh database of the run's server if undefined. */
  readonly database?: Effect.Effect<Redacted.Redacted, unknown, Scope.Scope>
  /** Where the pods find it, for example through a proxy. */
  readonly throughUrl?: (database: Redacted.Redacted) => Effect.Effect<string, unknown, Scope.Scope>
  readonly env?: Readonly<Record<string, string>>
  readonly schema?: string
  /** The module of `--app`; that of the fault cases if undefined. */
  readonly app?: string
}

/** Runs a statement on a separate connection. */
export const query =
  (url: string) =>
  <Row extends object>(text: string, values: ReadonlyArray<unknown> = []): Effect.Effect<Array<Row>, Error> =>
    Effect.tryPromise({
      try: async () => {
        const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, query_timeout: 10_000 })
        client.on("error", () => {})
        await client.connect()
        try {
          return (await client.query<Row>(text, [...values])).rows
        } finally {
          // Not awaited: a frozen server never says goodbye.
          client.end().catch(() => {})
        }
      },
      catch: (error) => (error instanceof Error ? error : new Error(String(error)))
    })

let counter = 0
/** A UUID version 7: ids sort by the time of their creation. */
const newId = () => {
  counter += 1
  const time = Date.now().toString(16).padStart(12, "0")
  const count = (counter % 4096).toString(16).padStart(3, "0")
  const random = () =>
    Math.floor(Math.random() * 65_536)
      .toString(16)
      .padStart(4, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7${count}-8${random().slice(1)}-${random()}${random()}${random()}`
}

/** A line of the ledger; one without an end lasts for ever. */
type LedgerLine =
  | RunEvent
  | { readonly event: "absent"; readonly pid: number; readonly from: number; readonly to?: number }

const linesOf = (file: string): ReadonlyArray<LedgerLine> =>
  existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => line.endsWith("}"))
        .map((line) => JSON.parse(line) as LedgerLine)
    : []

/** A process that is back has lost its leases or renews them within this time. */
const backAfter = millisOf("DATABASE_CONNECT_TIMEOUT") + 2 * millisOf("QUEUE_HEARTBEAT")

/** Creates the database and the ledger; pods are started by `startPod`. */
export const make = (options: DeploymentOptions = {}): Effect.Effect<Deployment, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const cwd = yield* Nightshift.folder
    const ledger = join(cwd, "ledger.jsonl")
    writeFileSync(ledger, "")
    const database = yield* options.database ?? TestDatabase.migrated
    const databaseUrl = Redacted.value(database)
    const schema = options.schema ?? "nightshift"
    const app = options.app ?? faultApp
    const podUrl = options.throughUrl === undefined ? databaseUrl : yield* options.throughUrl(database)
    const ask = query(databaseUrl)
    yield* ask("create table public.fault_effect (job uuid not null)")
    yield* ask("grant all on public.fault_effect to public")

    const env = {
      DATABASE_URL: podUrl,
      NIGHTSHIFT_ADMIN_TOKEN: token,
      FAULT_LEDGER: ledger,
      DATABASE_POOL: "4",
      DATABASE_HANDLER_POOL: "4",
      API_RATE_LIMIT: "0",
      LOG_LEVEL: "info",
      LOG_FORMAT: "json",
      ...quick,
      ...options.env
    }
    const pods: Array<Pod> = []
    const starting = new Set<Nightshift.Running>()
    const absences: Array<{ pid: number; from: number; to: number }> = []
    const leaves = (pid: number) => absences.push({ pid, from: Date.now(), to: Number.POSITIVE_INFINITY })
    const returns = (pid: number) => {
      const to = Date.now() + backAfter
      for (const absence of absences) if (absence.pid === pid) absence.to = Math.min(absence.to, to)
    }
    const attempted: Array<Attempted> = []
    const acknowledged = new Set<string>()
    const warnings: Array<string> = []
    const refusals: Array<string> = []
    let lostCounts = false
    let bootMillis = 0

    const launch = ({ args = [], env: more = {}, program, takesLoad = true }: PodOptions) =>
      Effect.gen(function* () {
        const began = performance.now()
        const running = yield* Nightshift.start(["serve", "--app", app, "--port", "0", ...args], {
          cwd,
          env: { ...env, ...more },
          ...(program === undefined ? {} : { program })
        })
        starting.add(running)
        let alive = true
        yield* Effect.forkScoped(
          Effect.tap(running.finished, ({ code, signal, stderr }) =>
            Effect.sync(() => {
              alive = false
              leaves(running.pid)
              if (code !== 0 || stderr.includes("could not write the last counts")) lostCounts = true
              const lines = stderr.split("\n").filter((line) => /"(WARN|ERROR|FATAL)/i.test(line))
              warnings.push(
                ...lines.map((line) => `pod ${running.pid}: ${line.slice(0, 600)}`),
                `pod ${running.pid}: exit ${code ?? signal}`
              )
            })
          )
        )
        const [, base = ""] = yield* running.said(/"url":"(http:[^"]+)"/)
        starting.delete(running)
        bootMillis = Math.max(bootMillis, performance.now() - began)
        const signal = (name: NodeJS.Signals) =>
          Effect.suspend(() => {
            if (name === "SIGKILL" || name === "SIGSTOP") leaves(running.pid)
            if (name === "SIGCONT") returns(running.pid)
            return running.signal(name)
          })
        const pod = watch({ ...running, signal }, base, takesLoad, () => alive)
        pods.push(pod)
        return pod
      })

    const startPod = (podOptions: PodOptions = {}) =>
      Effect.gen(function* () {
        const pod = yield* launch(podOptions)
        if (podOptions.restarts === true) {
          const again = (last: Pod): Effect.Effect<void, unknown, Scope.Scope> =>
            Effect.flatMap(last.finished, ({ code }) =>
              code === 0 ? Effect.void : Effect.flatMap(launch(podOptions), again)
            )
          yield* Effect.forkScoped(again(pod))
        }
        return pod
      })

    const places = new Map<string, number>()
    let turn = 0
    const enqueue = (jobs: ReadonlyArray<Wanted>, via?: Pod) =>
      Effect.gen(function* () {
        const records = jobs.map(({ delayMillis, expected = "done", failures, key, kind }): Attempted => {
          const n = key === undefined ? undefined : (places.get(key) ?? 0) + 1
          if (key !== undefined && n !== undefined) places.set(key, n)
          return {
            id: newId(),
            kind,
            expected,
            ...(key === undefined || n === undefined ? {} : { key, n }),
            ...(delayMillis === undefined ? {} : { runAt: Date.now() + delayMillis }),
            ...(failures === undefined ? {} : { failures })
          }
        })
        attempted.push(...records)
        const body = {
          jobs: jobs.map(({ key, kind, payload, queue, subject }, index) => {
            const record = records[index]
            return {
              id: record?.id,
              kind,
              payload: record?.n === undefined ? payload : { ...payload, n: record.n },
              ...(key === undefined ? {} : { key }),
              ...(queue === undefined ? {} : { queue }),
              ...(subject === undefined ? {} : { subject }),
              ...(record?.runAt === undefined ? {} : { runAt: new Date(record.runAt).toISOString() })
            }
          })
        }
        const attempt = Effect.gen(function* () {
          const alive = pods.filter((pod) => pod.isAlive() && pod.takesLoad)
          turn += 1
          const pod = via?.isAlive() === true ? via : alive[turn % alive.length]
          if (pod === undefined) return yield* Effect.fail("no pod is alive")
          const answer = yield* pod.request("POST", "/api/v1/jobs", body)
          if (answer.status >= 200 && answer.status < 300) return undefined
          if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
            return yield* Effect.die(new Error(`enqueue was refused: ${answer.status} ${answer.body}`))
          }
          refusals.push(`${answer.status} ${answer.body}`)
          return yield* Effect.fail(`${answer.status} ${answer.body}`)
        })
        yield* Effect.retry(attempt, Schedule.spaced("150 millis")).pipe(
          Effect.timeoutFail({
            duration: `${90 * pace} seconds`,
            onTimeout: () => new Error(`no pod acknowledged an enqueue within ${90 * pace} s`)
          }),
          Effect.mapError((error) => (error instanceof Error ? error : new Error(error)))
        )
        for (const { id } of records) acknowledged.add(id)
        return records.map(({ id }) => id)
      })

    const deployment: Deployment = {
      databaseUrl,
      schema,
      cwd,
      ledger,
      pods,
      startPod,
      query: ask,
      enqueue,
      enqueueBySql: (kind, payload) =>
        Effect.map(
          ask<{ id: string }>(`select "${schema}".enqueue($1, $2) as id`, [kind, JSON.stringify(payload)]),
          ([{ id } = { id: "" }]) => {
            attempted.push({ id, kind, expected: "done" })
            acknowledged.add(id)
            return id
          }
        ),
      refusals,
      attempted,
      acknowledged,
      // The jobs of the load.
      rows: ask<JobRow>(
        `select id, status, attempt, max_attempts as "attempts", result->>'run' as run, dead_reason as "reason",
           coalesce(meta ? 'subjectErasedAt', false) as erased
         from "${schema}".job where kind <> 'tick' and kind not like 'shop.%' order by id`
      ),
      events: () => linesOf(ledger).filter((line) => line.event !== "absent"),
      absences: () => [
        ...absences,
        ...linesOf(ledger).flatMap((line) =>
          line.event === "absent"
            ? [{ ...line, to: line.to === undefined ? Number.POSITIVE_INFINITY : line.to + backAfter }]
            : []
        )
      ],
      away: (pods, effect) =>
        Effect.acquireUseRelease(
          Effect.sync(() => pods.map(({ pid }) => pid)),
          (pids) => {
            for (const pid of pids) leaves(pid)
            return effect
          },
          (pids) => Effect.sync(() => pids.forEach(returns))
        ),
      serveToEnd: (more) => Nightshift.run(["serve", "--app", app, "--port", "0"], { cwd, env: { ...env, ...more } }),
      starting: () => [...starting],
      command: (...args) => Nightshift.run(args, { cwd, env }),
      commandOf: (program, ...args) => Nightshift.run(args, { cwd, env, program }),
      bootMillis: () => bootMillis,
      lostCounts: () => lostCounts,
      warnings: () => warnings
    }
    return deployment
  })

/** Jobs of several kinds; the turn varies their duration and key. */
export const batch = (turn: number): ReadonlyArray<Wanted> => [
  { kind: "work", payload: { ms: 20 + (turn % 5) * 60 } },
  { kind: "once", payload: { ms: 10 } },
  { kind: "ordered", payload: { ms: 5 }, key: `key ${turn % 3}` }
]

/** Enqueues jobs of several kinds at a steady pace until it is interrupted; returns a fiber to stop. */
export const keepEnqueuing = (
  deployment: Deployment
): Effect.Effect<{ readonly stop: Effect.Effect<void, Error> }, never, Scope.Scope> =>
  Effect.gen(function* () {
    const stopping = yield* Deferred.make<void>()
    let turn = 0
    const loop = Effect.gen(function* () {
      while (!(yield* Deferred.isDone(stopping))) {
        turn += 1
        yield* deployment.enqueue(batch(turn))
        yield* Effect.sleep("150 millis")
      }
    })
    const fiber = yield* Effect.forkScoped(loop)
    return { stop: Effect.zipRight(Deferred.succeed(stopping, undefined), Fiber.join(fiber)) }
  })
