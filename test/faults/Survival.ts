import { Duration, Effect, Fiber, Schedule, type Scope } from "effect"
import * as Deployment from "./Deployment.js"
import { allowanceOf, type Observation, pace } from "./FaultCase.js"
import * as HistoryChecker from "./HistoryChecker.js"
import * as Stuck from "./Stuck.js"

export interface Story extends Deployment.DeploymentOptions {
  /** Number of pods; 2 by default. */
  readonly pods?: number
  readonly podOptions?: Deployment.PodOptions
  /** Before the pods start. */
  readonly prepare?: (deployment: Deployment.Deployment) => Effect.Effect<unknown, unknown, Scope.Scope>
  /** Injects the fault while jobs run. The fault is over when it returns what the operator saw. */
  readonly fault: (deployment: Deployment.Deployment) => Effect.Effect<ReadonlyArray<string>, unknown, Scope.Scope>
  /** Whether counters may differ from what happened, for example because the schema is read by two releases. */
  readonly countsMayDiffer?: boolean
  /** Whether the server cannot know that connections are gone, so it keeps their transactions for a while. */
  readonly leavesSessions?: boolean
  /** Whether pods cannot renew their leases during the fault, so that a job may start again while its run goes on. */
  readonly losesLeases?: boolean
  /** Checks after everything has ended. */
  readonly afterwards?: (
    deployment: Deployment.Deployment
  ) => Effect.Effect<ReadonlyArray<string>, unknown, Scope.Scope>
}

/** Remembers finished rows and reports those that change later. An erasure removes the result and nothing else. The text of a time depends on settings that a case changes. */
const watchEnded = (deployment: Deployment.Deployment, changed: Array<string>) => {
  const seen = new Map<string, { readonly state: string; readonly result: string | null }>()
  const look = deployment
    .query<{ id: string; state: string; result: string | null }>(
      `select id, concat_ws(' ', status, extract(epoch from finished_at), attempt) as state,
         case when meta ? 'subjectErasedAt' then null else coalesce(result::text, '') end as result
       from "${deployment.schema}".job where finished_at is not null`
    )
    .pipe(
      Effect.tap((rows) =>
        Effect.sync(() => {
          for (const row of rows) {
            const before = seen.get(row.id)
            const isErased = row.result === null
            if (before !== undefined && before.state !== row.state) changed.push(row.id)
            else if (before !== undefined && !isErased && before.result !== row.result) changed.push(row.id)
            seen.set(row.id, row)
          }
        })
      ),
      Effect.ignore
    )
  return Effect.repeat(look, Schedule.spaced("500 millis"))
}

const configure = (deployment: Deployment.Deployment) =>
  Effect.flatMap(
    Deployment.until(
      "a process that serves",
      Effect.sync(() => deployment.pods[0]),
      (pod) => pod !== undefined
    ),
    (pod) =>
      Deployment.until(
        "strict order",
        pod?.request("PATCH", "/api/v1/queues/ordered", { limits: { perKey: { concurrency: 1, order: "strict" } } }) ??
          Effect.succeed({ status: 0, body: "" }),
        ({ status }) => status === 200
      )
  )

const unfinished = (deployment: Deployment.Deployment) =>
  deployment.query<{ id: string; status: string; kind: string; error: string }>(
    `select id, status, kind, left(last_error, 80) as error from "${deployment.schema}".job where finished_at is null and kind <> 'tick' limit 5`
  )

const counted = (deployment: Deployment.Deployment) =>
  Effect.map(
    deployment.query<{ completed: number }>(
      `select coalesce(sum(completed), 0)::int as completed from "${deployment.schema}".job_bucket
       where minutes = 1 and kind <> 'tick'`
    ),
    ([row]) => row?.completed ?? 0
  )

/** Asks every pod that still runs to stop; each must exit with 0. */
const stopPods = (deployment: Deployment.Deployment) =>
  Effect.forEach(
    deployment.pods.filter((pod) => pod.isAlive()),
    (pod) =>
      Effect.gen(function* () {
        yield* pod.signal("SIGTERM")
        const { code, signal, stderr } = yield* Effect.timeoutFail(pod.finished, {
          duration: `${60 * pace} seconds`,
          onTimeout: () => new Error(`a process did not stop within ${60 * pace} s of SIGTERM`)
        })
        if (code !== 0) {
          return yield* Effect.fail(new Error(`a process ended with ${code ?? signal}: ${stderr.slice(-1_500)}`))
        }
        return undefined
      }),
    { concurrency: "unbounded", discard: true }
  )

/** How long a batch of the usual load takes, from the request until every job has ended, in milliseconds. */
const measureBatch = (deployment: Deployment.Deployment) =>
  Effect.gen(function* () {
    const began = performance.now()
    // Not the key of a job that the load enqueues at the same time: those two have no order.
    const measured = Deployment.batch(1).map((job) => (job.key === undefined ? job : { ...job, key: "measured" }))
    const ids = yield* deployment.enqueue(measured)
    yield* Deployment.until(
      "a batch ends",
      deployment.query(`select from "${deployment.schema}".job where id = any($1) and finished_at is not null`, [ids]),
      (rows) => rows.length === ids.length
    )
    return performance.now() - began
  })

/** The jobs that have not ended, and how long their handlers run in milliseconds, if each pod has four free slots. */
const remainingWork = (deployment: Deployment.Deployment) =>
  Effect.gen(function* () {
    const rows = yield* deployment.query<{ ms: number }>(
      `select (payload->>'ms')::float8 as ms from "${deployment.schema}".job where finished_at is null and kind <> 'tick'`
    )
    const alive = deployment.pods.filter((pod) => pod.isAlive()).length
    const all = rows.reduce((sum, { ms }) => sum + ms, 0)
    return { jobs: rows.length, remaining: Math.max(0, ...rows.map(({ ms }) => ms), all / (4 * Math.max(1, alive))) }
  })

/** Waits until everything that was acknowledged has ended and a new job has run, then checks the whole history. */
export const recover = (
  deployment: Deployment.Deployment,
  since: number,
  story: Pick<Story, "countsMayDiffer" | "leavesSessions" | "afterwards" | "podOptions">,
  changed: ReadonlyArray<string>,
  batchBefore: number
): Effect.Effect<Observation, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const left = yield* Deployment.until("the jobs that are left", remainingWork(deployment), () => true)
    yield* deployment.enqueue([{ kind: "work", payload: { ms: 1 } }])
    yield* Deployment.until("every job ends", unfinished(deployment), (rows) => rows.length === 0).pipe(
      Effect.catchAll((error) =>
        Effect.flatMap(Stuck.describe(deployment), (report) => Effect.fail(new Error(`${error.message}\n${report}`)))
      )
    )
    const recovery = Duration.millis(performance.now() - since)
    const batch = Math.max(batchBefore, yield* measureBatch(deployment))
    const boot = story.podOptions?.restarts === true ? deployment.bootMillis() : 0
    const allowance = allowanceOf({ batch, boot, ...left })
    const saw = story.afterwards === undefined ? [] : yield* story.afterwards(deployment)
    yield* stopPods(deployment)
    const open = yield* deployment.query<{ pid: number; query: string }>(
      `select pid, query from pg_stat_activity
       where datname = current_database() and application_name like 'nightshift%' and xact_start is not null`
    )
    const facts: HistoryChecker.Facts = {
      attempted: deployment.attempted,
      acknowledged: deployment.acknowledged,
      rows: yield* deployment.rows,
      events: deployment.events(),
      absences: deployment.absences(),
      committed: (yield* deployment.query<{ job: string }>("select job from public.fault_effect")).map(
        ({ job }) => job
      ),
      changedAfterEnd: changed,
      ...(story.countsMayDiffer === true || deployment.lostCounts() ? {} : { counted: yield* counted(deployment) })
    }
    const violations = [
      ...HistoryChecker.check(facts),
      ...(story.leavesSessions === true ? [] : open).map(
        (row) => `a stopped process left a transaction open: ${row.query}`
      )
    ]
    if (violations.length > 0) {
      return yield* Effect.fail(
        new Error(
          [
            `${violations.length} promises broken:`,
            ...violations.slice(0, 20),
            ...deployment.warnings().slice(-40)
          ].join("\n")
        )
      )
    }
    return { recovery, allowance, saw }
  })

/** Runs pods under load, injects the fault, waits for recovery and checks the history. */
export const survive = (story: Story): Effect.Effect<Observation, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const deployment = yield* Deployment.make(story)
    yield* (story.prepare ?? (() => Effect.void))(deployment)
    const start = deployment.startPod(story.podOptions)
    yield* Effect.replicateEffect(start, story.pods ?? 2, { concurrency: "unbounded" })
    yield* configure(deployment)
    const changed: Array<string> = []
    const watcher = yield* Effect.forkScoped(watchEnded(deployment, changed))
    const load = yield* Deployment.keepEnqueuing(deployment)
    yield* Deployment.until("jobs run", Effect.sync(deployment.events), (events) => events.length >= 6)
    const batchBefore = yield* measureBatch(deployment)
    const fault = story.fault(deployment)
    const saw = yield* story.losesLeases === true ? deployment.away(deployment.pods, fault) : fault
    const since = performance.now()
    yield* load.stop
    const recovered = yield* recover(deployment, since, story, changed, batchBefore)
    yield* Fiber.interrupt(watcher)
    return { ...recovered, saw: [...saw, ...recovered.saw] }
  })
