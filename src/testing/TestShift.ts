import {
  Cause,
  Clock,
  Context,
  DateTime,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  LogLevel,
  Option,
  Random,
  Scope
} from "effect"
import { durationOf } from "../client/Options.js"
import { InvalidOptionError } from "../client/ShiftErrors.js"
import { type DurationInput, decode } from "../core/DurationText.js"
import type { JobId } from "../core/Ids.js"
import { hasTimeouts } from "../core/Loop.js"
import { shown } from "../core/Storable.js"
import type { StoredJob } from "../core/StoredJob.js"
import { never } from "../core/Suspension.js"
import type { Handler } from "../handlers/Handler.js"
import { MetricsConfig } from "../history/MetricsConfig.js"
import type { JobNotFound } from "../queue/JobErrors.js"
import { JobsMemory } from "../queue/JobsMemory.js"
import { Queue } from "../queue/Queue.js"
import { JobSearch } from "../queue/search/JobSearch.js"
import { type DeclaredQueues, namesOf } from "../queue/settings/QueueDeclaration.js"
import { decide } from "../queue/settings/Routes.js"
import type { Why } from "../queue/why/Why.js"
import { SchedulerConfig } from "../schedule/SchedulerConfig.js"
import { SweeperConfig } from "../uploads/Sweeper.js"
import { ClusterConfig } from "../worker/ClusterConfig.js"
import { explain } from "../worker/Explain.js"
import * as PodLoops from "../worker/PodLoops.js"
import * as Worker from "../worker/Worker.js"
import { WorkerConfig } from "../worker/WorkerConfig.js"
import { callerFrames, showFrames } from "./CallerFrames.js"
import * as Disconnectable from "./Disconnectable.js"
import { HandlerRuns } from "./HandlerRuns.js"
import { ReplayCheck } from "./ReplayCheck.js"
import { checkValues, type TestOptions } from "./TestOptions.js"
import { countingIn, portsOf, type TestPorts } from "./TestPorts.js"
import { ordered, VirtualClock } from "./VirtualClock.js"

// A complete pod on in-memory tables and a virtual clock; the worker code is the real one. Due jobs run only when the
// test settles, and time moves only when the test advances it.

/** A process under test. */
export class TestShift extends Context.Tag("nightshift/testing/TestShift")<
  TestShift,
  {
    /** Runs all due jobs, and the jobs they make due, until nothing changes. */
    readonly settle: Effect.Effect<void>

    /** Advances the clock, runs each job at the instant it becomes due, then settles. */
    readonly advance: (duration: DurationInput) => Effect.Effect<void>

    /**
     * Advances the clock from one due job to the next until all jobs are done or dead. Dies if that takes too many
     * steps.
     */
    readonly drain: Effect.Effect<void>

    /** The job as it is stored now. Fails with JobNotFound. */
    readonly job: (id: JobId) => Effect.Effect<StoredJob, JobNotFound>

    /** Explains why a job is not running, or returns its state. */
    readonly why: (id: JobId) => Effect.Effect<Why, JobNotFound>

    /** All jobs, oldest first. */
    readonly jobs: Effect.Effect<ReadonlyArray<StoredJob>>

    /** Kills the process without cleanup, like kill -9, and starts a new one. Its running jobs stay claimed. */
    readonly crashPod: Effect.Effect<void>

    /** Stops the process gracefully, like SIGTERM. */
    readonly stopPod: Effect.Effect<void>

    /** The seed of ids, jitter and Effect's Random. */
    readonly seed: number
  }
>() {
  /**
   * A shift in memory with these handlers, and the services that they use.
   *
   * @example
   * ```ts
   * import { Effect, Schema } from "effect"
   * import { Handler, Job } from "nightshift"
   * import { TestShift } from "nightshift/effect/testing"
   *
   * const Remind = Job.make("remind", { payload: Schema.Struct({ who: Schema.String }) })
   * const RemindHandler = Handler.make(Remind, ({ who }) => Effect.succeed(`reminded ${who}`))
   * export const test = Effect.gen(function* () {
   *   const shift = yield* TestShift
   *   const { id } = yield* Remind.enqueue({ who: "Ada" }, { delay: "1d" })
   *   yield* shift.advance("1d")
   *   return (yield* shift.job(id)).state // done
   * }).pipe(Effect.provide(TestShift.layer({ handlers: [RemindHandler] })))
   * ```
   */
  static layer<R>(options: TestShiftOptions<R>): Layer.Layer<TestServices, never, Exclude<R, TestServices>> {
    return layerOf(options)
  }
}

/** What the process under test runs, and its clock. */
export interface TestShiftOptions<R> extends TestOptions<DateTime.DateTime.Input> {
  /** Handlers and workflows under test. */
  readonly handlers: ReadonlyArray<Handler<R>>
  /** Minimum log level of the process and its handlers. [LogLevel.Warning] */
  readonly logLevel?: LogLevel.LogLevel
}

/** The services that tests and handlers can use: the shift and the in-memory services of Nightshift. */
export type TestServices = TestShift | TestPorts

/**
 * Rounds without a change after which the pod counts as settled. More while a handler runs, which may await a promise.
 */
const stillRounds = { idle: 2, busy: 25 }
const maxSteps = 10_000

/** Instants with a change after which counts are written. A loop that writes them would take as long as the jobs. */
const instantsPerFlush = 100

const metricsConfig = Layer.succeed(MetricsConfig, {
  flush: Duration.seconds(2),
  retention: Duration.days(30),
  oldTransaction: Duration.minutes(5)
})

const graceOf = <R>({ grace = "25 seconds" }: TestShiftOptions<R>) => decode(grace)

const configs = <R>(options: TestShiftOptions<R>) =>
  Layer.mergeAll(
    metricsConfig,
    // Wake-ups and the next due time make polling unnecessary. Every poll would slow the test down.
    Layer.succeed(WorkerConfig, {
      queues: [],
      slots: options.slots ?? 10,
      poll: Duration.days(7),
      heartbeat: Duration.minutes(10),
      grace: graceOf(options),
      mask: options.mask ?? []
    }),
    // Cluster changes are signalled, or applied directly after a crash, so these loops can run rarely.
    Layer.succeed(ClusterConfig, {
      workerPrefix: Option.none(),
      workerVersion: Option.none(),
      workerId: Option.none(),
      podHeartbeat: Duration.days(30),
      staleAfter: Duration.days(90),
      reaperInterval: Duration.days(7),
      rebalanceInterval: Duration.days(7),
      cleanupInterval: Duration.days(30),
      doneRetention: options.retention === undefined ? Duration.infinity : decode(options.retention),
      eventRetention: options.retention === undefined ? Duration.infinity : decode(options.retention),
      stuckTimeout: Duration.minutes(30),
      janitorInterval: Duration.hours(1),
      lease: Duration.days(630)
    }),
    Layer.succeed(SchedulerConfig, { poll: Duration.days(7), onTime: Duration.seconds(20) }),
    Layer.succeed(SweeperConfig, { ackRetention: Duration.hours(1), interval: Duration.minutes(5) })
  )

const neverInMemory = { DatabaseUnavailable: Effect.die, DatabaseConflict: Effect.die, DatabaseFault: Effect.die }

/** Returns the queues of the handlers' kinds, including routed ones. */
export const queuesOf = <R>({ handlers, routes = {} }: TestShiftOptions<R>): ReadonlyArray<string> => {
  const declared = Object.entries(routes).flatMap(([prefix, queue]) => (queue === null ? [] : [{ prefix, queue }]))
  const routeOf = decide(declared)
  return handlers.map(({ kind }) => (kind.routed ? routeOf(kind.name) : undefined) ?? kind.queue)
}

/** Says what the process lacks to run a job. Only a test that changes its options can run it. */
export const missingIn = <R>({ handlers }: TestShiftOptions<R>, declared: DeclaredQueues) => {
  const kinds = new Set(handlers.map(({ kind }) => kind.name))
  const queues = namesOf(declared)
  return ({ kind, queue }: Pick<StoredJob, "kind" | "queue">): string | undefined => {
    if (!kinds.has(kind)) return `no handler for "${kind}" in testShift({ handlers })`
    if (!queues.includes(queue)) return `queue "${queue}" is not in testShift({ queues })`
    return undefined
  }
}

const layerOf = <R>(options: TestShiftOptions<R>): Layer.Layer<TestServices, never, Exclude<R, TestServices>> =>
  Layer.unwrapEffect(
    Effect.sync(() => {
      checkValues(options)
      return layerOn(new VirtualClock(DateTime.toEpochMillis(DateTime.unsafeMake(options.startAt ?? 0))), options)
    })
  )

const layerOn = <R>(
  clock: VirtualClock,
  options: TestShiftOptions<R>
): Layer.Layer<TestServices, never, Exclude<R, TestServices>> => {
  const queues = options.queues ?? queuesOf(options)
  const missingFor = missingIn(options, queues)
  const seed = options.seed ?? 1
  const runs = new HandlerRuns()
  let flush: Effect.Effect<unknown> = Effect.void
  const counting = countingIn((made) => {
    flush = made
  })
  const replays = new ReplayCheck()
  const watch = <A>(handler: Handler<A>) => runs.watch(options.allowChanged === true ? handler : replays.watch(handler))
  const shift = Layer.scoped(
    TestShift,
    Effect.gen(function* () {
      const table = yield* JobsMemory
      const search = yield* JobSearch
      const context = yield* Effect.context<R | TestPorts>()
      let pod: {
        readonly scope: Scope.CloseableScope
        readonly disconnect: Effect.Effect<void>
        readonly worker: typeof Worker.Worker.Service
      }

      const buildPod = Effect.gen(function* () {
        const scope = yield* Scope.make()
        const disconnectable = Disconnectable.make(context)
        const built = yield* Worker.layer({
          ...options,
          queues,
          loops: PodLoops.inMemory,
          handlers: options.handlers.map((handler) => watch(handler))
        }).pipe(
          Layer.provide(configs(options)),
          Layer.provide(disconnectable.layer),
          Layer.orDie,
          Layer.buildWithScope(scope),
          Effect.locally(hasTimeouts, false),
          Logger.withMinimumLogLevel(options.logLevel ?? LogLevel.Warning)
        )
        const worker = Context.get(built, Worker.Worker)
        pod = { scope, worker, disconnect: disconnectable.disconnect(worker.pod) }
      })
      // The handlers' requirements are in the context, but the compiler cannot subtract them from the type parameter R.
      const startPod = Effect.mapInputContext(
        buildPod as Effect.Effect<void, never, R | TestPorts>,
        (_: Context.Context<never>) => context
      )

      const flushCounts = Effect.suspend(() => Effect.asVoid(flush))

      let seen = -1
      /**
       * Settles, and returns whether there was anything to do. If `mayBeStill`, one turn of the event loop is enough when no job
       * runs and nothing has changed since the last time.
       */
      const settleNow = (mayBeStill: boolean): Effect.Effect<boolean> =>
        Effect.suspend(() => {
          let still = 0
          let steps = 0
          if (!mayBeStill) seen = table.changes()
          const isStill = () => still >= (pod.worker.isIdle() ? stillRounds.idle : stillRounds.busy)
          // A callback per turn of the event loop, not a step of the fiber: a month has thousands.
          const untilStill = Effect.async<boolean>((resume) => {
            const turn = () => {
              const changes = table.changes()
              const isFirst = mayBeStill && steps === 0
              if (isFirst && changes === seen && pod.worker.isIdle()) return resume(Effect.succeed(false))
              still = changes === seen && !isFirst ? still + 1 : 0
              seen = changes
              steps += 1
              if (isStill() || steps >= maxSteps) resume(Effect.succeed(true))
              else setImmediate(turn)
            }
            setImmediate(turn)
          })
          const settled: Effect.Effect<boolean> = Effect.flatMap(untilStill, (hasChanged) => {
            if (!hasChanged) return Effect.succeed(false)
            if (!isStill()) return Effect.dieMessage("TestShift does not settle: a job keeps making itself due again")
            const realTime = runs.realTime()
            return realTime === undefined ? Effect.as(replays.report, true) : Effect.zipRight(realTime, settled)
          })
          return settled
        })

      const settle = Effect.zipRight(settleNow(false), flushCounts)

      let instants = 0
      clock.settle = Effect.flatMap(settleNow(true), (hasChanged) => {
        if (hasChanged) instants += 1
        return hasChanged && instants % instantsPerFlush === 0 ? flushCounts : Effect.void
      })

      const advance = (duration: DurationInput) =>
        Effect.suspend(() => {
          const wait = durationOf("duration", duration)
          // As a duration it is 0.
          if (String(duration).startsWith("-"))
            throw new InvalidOptionError("duration", `duration must not be negative, got ${shown(duration)}.`)
          const until = clock.unsafeCurrentTimeMillis() + Duration.toMillis(wait)
          const move = Effect.suspend(() => clock.setTime(Math.max(until, clock.unsafeCurrentTimeMillis())))
          return settle.pipe(Effect.zipRight(move), Effect.zipRight(settle))
        })

      const nextInstant = Effect.gen(function* () {
        const jobs = (yield* table.all).filter(({ finishedAt }) => finishedAt === undefined)
        if (jobs.length === 0) return undefined
        const missing = jobs.map(missingFor).find((text) => text !== undefined)
        if (missing !== undefined)
          return yield* Effect.die(new InvalidOptionError("handlers", `TestShift cannot drain: ${missing}.`))
        const now = yield* Clock.currentTimeMillis
        const names = new Set(jobs.map((job) => job.queue))
        const due = yield* Effect.orDie(Context.get(context, Queue).nextDue([...names]))
        // Ignore jobs that are already due: they wait for a slot, which becomes free only as time passes.
        const starts = [...due.values()].filter((instant) => instant > now)
        const isBusy = jobs.some(({ state }) => state === "running")
        if (!isBusy && starts.length > 0 && Math.min(...starts) >= never)
          return yield* Effect.dieMessage("TestShift cannot drain: the remaining workflow executions wait for a signal")
        if (!isBusy && due.size > 0 && starts.length === due.size) return Math.min(...starts)
        if (!isBusy && due.size === 0)
          return yield* Effect.dieMessage("TestShift cannot drain: the remaining jobs wait in a paused queue")
        const sleeps = [...(yield* clock.sleeps)].filter((instant) => instant > now)
        return Math.min(...starts, ...sleeps)
      })

      const drain = Effect.gen(function* () {
        for (let step = 0; step < maxSteps; step += 1) {
          yield* settle
          const next = yield* nextInstant
          if (next === undefined) return
          const now = yield* Clock.currentTimeMillis
          yield* clock.adjust(Duration.millis(Math.max(0, next - now)))
        }
        return yield* Effect.dieMessage(`TestShift did not drain within ${maxSteps} steps`)
      })

      const stopPod = Effect.suspend(() => Scope.close(pod.scope, Exit.void))
      yield* startPod
      // At the end of a test the clock no longer advances, so running jobs would never finish: disconnect the pod to
      // close it without waiting.
      yield* Effect.addFinalizer((exit) =>
        Effect.gen(function* () {
          if (Exit.isFailure(exit)) yield* Effect.logWarning(`the test failed with seed ${seed}`)
          yield* pod.disconnect
          const closing = yield* Effect.forkDaemon(stopPod)
          yield* clock.adjust("1 hour").pipe(Effect.repeatN(2))
          // Jobs that still run are interrupted when the grace is over.
          yield* Effect.whenEffect(clock.adjust(graceOf(options)), Effect.map(closing.poll, Option.isNone))
          yield* Fiber.join(closing)
        })
      )
      /** Runs what a test calls. A defect shows the frame of the test and none of the harness. */
      const called = <A>(frames: ReadonlyArray<string>, effect: Effect.Effect<A>) =>
        Effect.tapErrorCause(effect, (cause) =>
          Effect.sync(() => {
            for (const defect of Cause.defects(cause)) if (defect instanceof Error) showFrames(defect, frames)
          })
        )
      const moved = (duration: DurationInput) => called(callerFrames(moved), advance(duration))
      return {
        seed,
        // Getters, because the test is on the stack only while it reads the property.
        get settle() {
          return called(callerFrames(), settle)
        },
        get drain() {
          return called(callerFrames(), drain)
        },
        advance: moved,
        job: (id) => Effect.catchTags(search.get(id), neverInMemory),
        why: (id) =>
          explain(id).pipe(
            Effect.catchTags({ ...neverInMemory, SearchTooSlow: Effect.die }),
            Effect.provide(configs(options)),
            Effect.mapInputContext(() => context)
          ),
        jobs: table.all,
        stopPod,
        crashPod: Effect.suspend(() =>
          pod.disconnect.pipe(
            Effect.zipRight(runs.kill),
            Effect.zipRight(Effect.forkDaemon(stopPod)),
            Effect.zipRight(startPod)
          )
        )
      }
    })
  )
  const whole = shift.pipe(
    Layer.provideMerge(portsOf(counting, options.codec)),
    Layer.provide(Layer.mergeAll(Layer.setClock(clock), Layer.setRandom(Random.make(`test ${seed}`)), ordered))
  )
  return whole as unknown as Layer.Layer<TestServices, never, Exclude<R, TestServices>>
}
