import { Clock, Deferred, Duration, Effect, Fiber, Schedule, type Scope } from "effect"
import * as Ids from "../../core/Ids.js"
import { decoded, isRejected } from "../ServiceClient.js"
import { ask, type Fault, faults, type Target } from "./ChaosFaults.js"
import * as ChaosLedger from "./ChaosLedger.js"

export interface Plan {
  readonly allowed: ReadonlyArray<string>
  readonly jobsPerSecond: number
  /** How long each fault lasts, and the pause after it. */
  readonly each: Duration.Duration
  /** How long to wait at the end for all jobs. */
  readonly drain: Duration.Duration
}

export interface ChaosReport {
  readonly run: string
  readonly faults: ReadonlyArray<{ readonly fault: string; readonly did: string }>
  readonly attempted: number
  readonly acknowledged: number
  readonly violations: ReadonlyArray<string>
}

const tries = Schedule.spaced("500 millis")
/** Number of requests at a time that read jobs. */
const readers = 8

/** Reads a job; undefined if the service does not know it. Retries until the service answers. */
const read = (target: Target, id: string, within: Duration.Duration) =>
  ask(target, "GET", `/api/v1/jobs/${id}`).pipe(
    Effect.flatMap(decoded(`/api/v1/jobs/${id}`, ChaosLedger.SeenJob)),
    Effect.catchIf(
      ({ status }) => status === 404,
      () => Effect.succeed(undefined)
    ),
    Effect.retry(Schedule.intersect(tries, Schedule.upTo(Schedule.forever, within)))
  )

/** Enqueues marked jobs until it is stopped. A request of unknown outcome is repeated with the same ids. */
const enqueueJobs = (
  target: Target,
  plan: Plan,
  run: string,
  entries: Map<string, ChaosLedger.Entry>,
  stop: Deferred.Deferred<void>
) =>
  Effect.gen(function* () {
    const generator = yield* Ids.makeGenerator
    let count = 0
    while (!(yield* Deferred.isDone(stop))) {
      count += 1
      const now = yield* Clock.currentTimeMillis
      const entry = ChaosLedger.makeEntry(generator.job(now), `chaos ${run} ${count}`)
      entries.set(entry.id, entry)
      const body = {
        id: entry.id,
        kind: "noop_echo",
        queue: target.queue,
        payload: { message: entry.message, sleep_ms: (count % 5) * 100 },
        meta: { chaos: run },
        ...(count % 10 === 0 ? { delay: "2s" } : {})
      }
      yield* ask(target, "POST", "/api/v1/jobs", { body }).pipe(
        // A rejected request stays rejected; a service that is away comes back.
        Effect.retry({
          until: isRejected,
          schedule: Schedule.intersect(tries, Schedule.upTo(Schedule.forever, plan.drain))
        })
      )
      entry.acknowledged = true
      yield* Effect.sleep(Duration.millis(1_000 / plan.jobsPerSecond))
    }
  })

/** Notes the first end that is seen of each job, so that a later change is found. */
const watchEnds = (target: Target, entries: ReadonlyMap<string, ChaosLedger.Entry>) =>
  Effect.forEach(
    [...entries.values()].filter(({ acknowledged, ended }) => acknowledged && ended === undefined),
    (entry) =>
      Effect.gen(function* () {
        const seen = yield* read(target, entry.id, Duration.zero)
        if (seen !== undefined && ChaosLedger.isFinished(seen) && !entry.requeued) entry.ended = seen
      }).pipe(Effect.ignore),
    { concurrency: readers, discard: true }
  ).pipe(Effect.repeat(Schedule.spaced("1 second")))

/** Reads every job until all have ended or the time is up. */
const drain = (target: Target, plan: Plan, entries: ReadonlyMap<string, ChaosLedger.Entry>) =>
  Effect.gen(function* () {
    const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(plan.drain)
    for (;;) {
      const open = [...entries.values()].filter((entry) => entry.last === undefined || !ChaosLedger.isSettled(entry))
      yield* Effect.forEach(
        open,
        (entry) =>
          Effect.map(read(target, entry.id, plan.drain), (seen) => {
            entry.last = seen
          }),
        { concurrency: readers, discard: true }
      )
      const isOver = (yield* Clock.currentTimeMillis) >= until
      if (isOver || [...entries.values()].every(ChaosLedger.isSettled)) break
      yield* Effect.sleep("500 millis")
    }
    // Read all of them once more: none may have changed.
    yield* Effect.forEach(
      entries.values(),
      (entry) =>
        Effect.map(read(target, entry.id, plan.drain), (seen) => {
          entry.ended ??= entry.last
          entry.last = seen
        }),
      { concurrency: readers, discard: true }
    )
  })

/** Enqueues marked jobs, injects the allowed faults one after another, waits, and checks every job. */
export const run = (
  target: Omit<Target, "entries">,
  plan: Plan,
  name: string,
  onFault: (fault: string, did: string) => Effect.Effect<void>
): Effect.Effect<ChaosReport, Effect.Effect.Error<ReturnType<Fault["inject"]>>, Scope.Scope> =>
  Effect.gen(function* () {
    const entries = new Map<string, ChaosLedger.Entry>()
    const whole: Target = { ...target, entries }
    const stop = yield* Deferred.make<void>()
    const enqueuer = yield* Effect.forkScoped(enqueueJobs(whole, plan, name, entries, stop))
    const watcher = yield* Effect.forkScoped(watchEnds(whole, entries))
    yield* Effect.sleep(plan.each)
    const injected: Array<{ readonly fault: string; readonly did: string }> = []
    for (const fault of plan.allowed) {
      const inject = faults[fault]?.inject
      if (inject === undefined) continue
      const did = yield* Effect.raceFirst(
        inject(whole, plan.each),
        // A rejected enqueue ends the run at once.
        Effect.zipRight(Fiber.join(enqueuer), Effect.never)
      )
      injected.push({ fault, did })
      yield* onFault(fault, did)
      yield* Effect.sleep(plan.each)
    }
    yield* Deferred.succeed(stop, undefined)
    yield* Fiber.join(enqueuer)
    yield* Fiber.interrupt(watcher)
    yield* drain(whole, plan, entries)
    const all = [...entries.values()]
    return {
      run: name,
      faults: injected,
      attempted: all.length,
      acknowledged: all.filter(({ acknowledged }) => acknowledged).length,
      violations: ChaosLedger.check(all)
    }
  })
