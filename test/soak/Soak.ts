import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Duration, Effect, Fiber, Schedule, type Scope } from "effect"
import * as Deployment from "../faults/Deployment.js"
import { defaults } from "../faults/FaultCase.js"
import * as Stuck from "../faults/Stuck.js"
import * as Nightshift from "../support/Nightshift.js"
import * as Curves from "./Curves.js"
import * as SoakLedger from "./SoakLedger.js"
import * as SoakLoad from "./SoakLoad.js"
import * as SoakSamples from "./SoakSamples.js"

export interface SoakOptions {
  readonly minutes: number
  /** Jobs per second, of all kinds together. */
  readonly rate: number
  readonly seed: number
  /** Receives a line about each sample, fault and broken promise. */
  readonly print: (line: string) => void
}

export interface SoakReport {
  readonly minutes: number
  readonly rate: number
  readonly seed: number
  readonly samples: ReadonlyArray<Curves.Sample>
  readonly curves: ReadonlyArray<Curves.Curve>
  /** What was done to the processes. */
  readonly faults: ReadonlyArray<string>
  /** Broken promises. */
  readonly violations: ReadonlyArray<string>
  /** Jobs found correct, by kind. */
  readonly checked: Readonly<Record<string, number>>
  /** Answers other than success, by what was asked for, status and text. */
  readonly refusals: Readonly<Record<string, number>>
  readonly warnings: ReadonlyArray<string>
}

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))

/** Everything is deleted after minutes, so that the tables can be flat. */
const settings = {
  // Not the short times of the fault cases: a process of a busy machine must not look dead.
  ...defaults,
  QUEUE_DONE_RETENTION: "2m",
  QUEUE_CLEANUP_INTERVAL: "20s",
  QUEUE_JANITOR_INTERVAL: "1m",
  METRICS_RETENTION: "5m",
  AUDIT_RETENTION: "2m",
  UPLOADS_ACK_RETENTION: "1m",
  UPLOADS_SWEEP_INTERVAL: "30s",
  UPLOADS_JOB_KIND: "file_arrived",
  SOURCE_SHOP_SECRET: SoakLoad.secret,
  QUEUE_HEARTBEAT: "2s",
  QUEUE_REAPER_INTERVAL: "5s",
  LOG_LEVEL: "error"
}

/** Jobs older than this must have ended, whatever was killed meanwhile. */
const patience = Duration.minutes(5)
const beatMillis = 5_000

const minute = 60_000
/** Samples and faults are closer together in a short soak. */
const intervalsOf = (minutes: number) => ({
  sample: Math.min(minute, (minutes * minute) / 12),
  fault: Math.min(1.5 * minute, (minutes * minute) / 5)
})

const countsOf = (texts: ReadonlyArray<string>): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {}
  for (const text of texts) counts[text] = (counts[text] ?? 0) + 1
  return counts
}

/** A worker of nightshift/client that is started again whenever it ends with an error. */
const startWorker = (cwd: string, env: Readonly<Record<string, string>>, onEnd: (text: string) => void) =>
  Effect.gen(function* () {
    let current: Nightshift.Running | undefined
    const launch = Effect.gen(function* () {
      const running = yield* Nightshift.start([], { cwd, env, program: fixture("soak-worker.mjs") })
      yield* running.said(/is up/)
      current = running
      return running
    })
    const again = (running: Nightshift.Running): Effect.Effect<void, unknown, Scope.Scope> =>
      Effect.flatMap(running.finished, ({ code, signal, stderr }) => {
        current = undefined
        if (code === 0) return Effect.void
        onEnd(`worker ${running.pid} ended with ${code ?? signal}: ${stderr.slice(-300)}`)
        return Effect.flatMap(launch, again)
      })
    const first = yield* launch
    yield* Effect.forkScoped(again(first))
    return () => current
  })

/** Runs the mixed load on real processes, disturbs them, and judges the ledger and the curves. */
export const run = (options: SoakOptions): Effect.Effect<SoakReport, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const { minutes, print, rate, seed } = options
    const intervals = intervalsOf(minutes)
    const shorter = { QUEUE_STALE_AFTER: minutes < 10 ? "20s" : "60s" }
    const deployment = yield* Deployment.make({ app: fixture("soak-app.mjs"), env: { ...settings, ...shorter } })
    const memoryFile = join(deployment.cwd, "memory.jsonl")
    const callersFile = join(deployment.cwd, "callers.jsonl")
    writeFileSync(join(deployment.cwd, "bots.yaml"), "sources:\n  shop: { style: github, kind: delivered }\n")
    yield* deployment.query("create table public.soak_booking (id text not null)")
    const ledger = SoakLedger.make(deployment, deployment.ledger, callersFile)
    const measure = SoakSamples.make(deployment, ledger, memoryFile)

    const env = { SOAK_MEMORY: memoryFile, SOAK_INTERVAL: String(intervals.sample) }
    const first = yield* deployment.startPod({ env: { ...env, SOAK_ROLE: SoakSamples.steady } })
    const faults: Array<string> = []
    const violations: Array<string> = []
    const report = (found: ReadonlyArray<string>) => {
      violations.push(...found)
      for (const line of found.slice(0, 20)) print(`BROKEN: ${line}`)
    }
    yield* deployment.startPod({ env, restarts: true })
    const workerEnv = {
      ...settings,
      ...shorter,
      ...env,
      DATABASE_URL: deployment.databaseUrl,
      FAULT_LEDGER: deployment.ledger
    }
    const worker = yield* startWorker(deployment.cwd, workerEnv, (text) => faults.push(text))

    const admin = (method: string, path: string, body?: unknown) =>
      Deployment.until(
        `${method} ${path}`,
        first.request(method, path, body),
        ({ status }) => status < 300 && status > 0
      )
    yield* admin("PATCH", "/api/v1/queues/ordered", { limits: { perKey: { concurrency: 1, order: "strict" } } })
    yield* admin("PATCH", "/api/v1/queues/flaky", { retainDead: "2m" })
    const made = yield* admin("POST", `/api/v1/workspaces/${SoakLoad.workspace}/tokens`)
    const { token: uploadToken } = JSON.parse(made.body) as { token: string }

    const begun = Date.now()
    const end = begun + minutes * minute
    const clock = () => `${((Date.now() - begun) / minute).toFixed(1)} min`

    // A tick of the schedule must exist for every five seconds. The first ones may be from before the start.
    let beats = Math.floor(begun / beatMillis) - 6
    const expectBeats = (until: number, required: number) => {
      for (; beats * beatMillis <= until; beats += 1) {
        const id = `beat ${new Date(beats * beatMillis).toISOString()}`
        ledger.attempt({ id, kind: "beat", expected: "done" })
        if (beats * beatMillis > begun + beatMillis && beats * beatMillis <= required) ledger.acknowledge(id)
      }
    }
    const collect = Effect.suspend(() => {
      expectBeats(Date.now() + beatMillis, end - minute / 2)
      return ledger.collect
    })
    // A cut connection is no reason to stop: the next pass reads everything that this one missed.
    const collecting = yield* Effect.forkScoped(Effect.repeat(Effect.ignore(collect), Schedule.spaced("2 seconds")))

    const load = yield* SoakLoad.start(deployment, ledger, { rate, seed, uploadToken })
    const samples: Array<Curves.Sample> = []
    const line = ({ at, values }: Curves.Sample) => {
      const mebi = (value = 0) => `${Math.round(value / 1_048_576)} MiB`
      return [
        `${(at / minute).toFixed(1)} min`,
        `rss ${mebi(values.rss)}`,
        `heap ${mebi(values.heap)}`,
        `tables ${mebi(values["table all"])}`,
        `indexes ${mebi(values["index all"])}`,
        `dead rows ${values["dead rows"]}`,
        `connections ${values.connections}`,
        `p50 ${values.p50?.toFixed(0)} ms`,
        `p99 ${values.p99?.toFixed(0)} ms`,
        `backlog ${values.backlog}`,
        `checked ${Object.values(ledger.checked()).reduce((sum, count) => sum + count, 0)}`,
        `broken ${violations.length}`
      ].join("  ")
    }
    const sampling = Effect.gen(function* () {
      const sample = yield* measure(Date.now() - begun)
      samples.push(sample)
      report(yield* ledger.check(Date.now() - Duration.toMillis(patience)))
      print(line(sample))
    }).pipe(
      Effect.catchAll((error) => Effect.sync(() => print(`a sample is missing: ${error.message}`))),
      Effect.delay(intervals.sample)
    )
    const samplingFiber = yield* Effect.forkScoped(Effect.forever(sampling))

    const random = SoakLoad.randomOf(seed + 1)
    const others = () => deployment.pods.filter((pod) => pod.isAlive() && pod.pid !== first.pid)
    const kill = Effect.gen(function* () {
      yield* Deployment.until(
        "processes that were killed before run again",
        Effect.sync(() => others().length > 0 && worker() !== undefined),
        (isBack) => isBack
      )
      const pod = others().at(-1)
      const [name, target] = random() < 0.5 && pod !== undefined ? ["pod", pod] : ["worker", worker()]
      if (target === undefined) return
      ledger.gone(target.pid)
      yield* target.signal("SIGKILL")
      yield* target.finished
      faults.push(`${clock()}: killed ${name} ${target.pid}`)
    })
    const cut = Effect.gen(function* () {
      const rows = yield* deployment.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`
      )
      faults.push(`${clock()}: cut ${rows.length} connections`)
    })
    const disturb = Effect.gen(function* () {
      for (let count = 0; ; count += 1) {
        yield* Effect.sleep(intervals.fault * (0.75 + random() / 2))
        yield* Effect.catchAll(count % 2 === 0 ? kill : cut, (error) => Effect.sync(() => report([error.message])))
        print(faults.at(-1) ?? "")
      }
    })
    const disturbing = yield* Effect.forkScoped(disturb)

    yield* Effect.sleep(end - Date.now())
    yield* Fiber.interrupt(disturbing)
    yield* Fiber.interrupt(samplingFiber)
    yield* load.stop
    print(`${clock()}: the load has ended`)
    yield* admin("PATCH", "/api/v1/schedules/beats", { paused: true })
    const unfinished = deployment.query<{ id: string }>(
      `select id from "${deployment.schema}".job where finished_at is null limit 5`
    )
    yield* Deployment.until("every job ends", unfinished, (rows) => rows.length === 0).pipe(
      Effect.catchAll((error) =>
        Effect.flatMap(Stuck.describe(deployment), (stuck) => Effect.sync(() => report([`${error.message}\n${stuck}`])))
      )
    )
    yield* Fiber.interrupt(collecting)
    report(yield* ledger.check(Date.now()))
    const waiting = yield* deployment.query<{ name: string }>(
      `select filename as name from "${deployment.schema}".upload where acked_at is null`
    )
    report(waiting.map(({ name }) => `file ${name} was never acknowledged`))
    report(load.failures)
    for (const running of [...deployment.pods.filter((pod) => pod.isAlive()), worker()]) {
      if (running === undefined) continue
      yield* running.signal("SIGTERM")
      const { code, signal } = yield* running.finished
      if (code !== 0) report([`process ${running.pid} ended with ${code ?? signal} after SIGTERM`])
    }
    return {
      minutes,
      rate,
      seed,
      samples,
      curves: Curves.judgeAll(samples),
      faults,
      violations,
      checked: ledger.checked(),
      refusals: { ...load.refusals, ...countsOf(deployment.refusals.map((text) => `jobs: ${text.slice(0, 100)}`)) },
      warnings: deployment.warnings()
    }
  })
