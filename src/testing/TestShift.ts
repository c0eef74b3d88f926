import {
  Chunk,
  Clock,
  Context,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  LogLevel,
  Scope,
  TestClock,
  TestContext
} from "effect"
import type { JobId } from "../core/Ids.js"
import type { StoredJob } from "../core/Job.js"
import * as Crew from "../crew/Crew.js"
import { CrewConfig } from "../crew/CrewConfig.js"
import { JanitorConfig } from "../crew/Janitor.js"
import type { Handler } from "../handlers/Handler.js"
import type { JobDesk } from "../queue/JobDesk.js"
import type { JobNotFound } from "../queue/JobErrors.js"
import { JobSearch } from "../queue/JobSearch.js"
import { JobsMemory } from "../queue/JobsMemory.js"
import type { Kinds } from "../queue/Kinds.js"
import { Queue } from "../queue/Queue.js"
import * as QueueMemory from "../queue/QueueMemory.js"
import type { Queues } from "../queue/QueueSettings.js"
import { Transactions } from "../queue/Transactions.js"
import * as Wakeups from "../queue/Wakeups.js"
import { Metrics } from "../telemetry/Metrics.js"
import * as Severed from "./Severed.js"

// A whole pod on memory layers and a test clock. The crew is the real one; only the tables and the time are not. Nothing
// happens by itself: what is due runs when the test lets it, and time moves when the test moves it.

/** A pod at work in a test. */
export class TestShift extends Context.Tag("nightshift/testing/TestShift")<
  TestShift,
  {
    /** Runs everything that is due now, and what follows from it, until nothing moves any more. */
    readonly settle: Effect.Effect<void>

    /** Moves time, letting everything that becomes due on the way run at its instant, and settles. */
    readonly advance: (duration: Duration.DurationInput) => Effect.Effect<void>

    /** Moves time from one due job to the next until all are done or dead. Dies when that takes too long. */
    readonly drain: Effect.Effect<void>

    readonly job: (id: JobId) => Effect.Effect<StoredJob, JobNotFound>

    /** Every job there is, oldest first. */
    readonly jobs: Effect.Effect<ReadonlyArray<StoredJob>>

    /** The pod is gone from one instant to the next, as by kill -9, and a new one starts. Its jobs are left as they were. */
    readonly crashPod: Effect.Effect<void>

    /** The pod stops in good order, as by SIGTERM. */
    readonly stopPod: Effect.Effect<void>
  }
>() {
  /** A shift on memory layers and a test clock, with these handlers. */
  static layer<R>(options: TestShiftOptions<R>): Layer.Layer<TestShift | Ports, never, Exclude<R, Ports>> {
    return layerOf(options)
  }
}

export interface TestShiftOptions<R> {
  readonly handlers: ReadonlyArray<Handler<R>>
  /** The queues that the pod serves; those of the handlers' kinds when absent. */
  readonly queues?: ReadonlyArray<string>
  /** How many jobs of a queue run at a time. [10] */
  readonly slots?: number
  /** How long running jobs may go on when the pod is stopped. [25 seconds] */
  readonly grace?: Duration.DurationInput
  /** What the pod logs, its handlers included. [LogLevel.Warning] */
  readonly logLevel?: LogLevel.LogLevel
}

type Ports = Queue | Queues | JobDesk | JobSearch | Kinds | Transactions | Wakeups.Wakeups | Metrics

/** How many rounds without a change mean that nothing moves any more. A handler may be waiting for a promise meanwhile. */
const stillRounds = { idle: 2, busy: 25 }
const mostSteps = 10_000

/** Lets every other fiber, and what waits for a promise, have its turn. */
const breathe = Effect.zipRight(
  Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void))),
  Effect.yieldNow()
)

const ports: Layer.Layer<Ports | JobsMemory> = QueueMemory.layer.pipe(
  Layer.provideMerge(Wakeups.layer),
  Layer.provideMerge(Transactions.layerMemory),
  Layer.provideMerge(Metrics.layer)
)

const configs = <R>(options: TestShiftOptions<R>) =>
  Layer.mergeAll(
    // Hints and the next due instant make the pod exact, so it need not poll: every tick of a loop costs a test time.
    Layer.succeed(CrewConfig, {
      queues: [],
      slots: options.slots ?? 10,
      poll: Duration.hours(1),
      heartbeat: Duration.minutes(10),
      grace: Duration.decode(options.grace ?? "25 seconds")
    }),
    Layer.succeed(JanitorConfig, {
      doneRetention: Duration.hours(168),
      stuckTimeout: Duration.minutes(30),
      interval: Duration.hours(1)
    })
  )

const layerOf = <R>(options: TestShiftOptions<R>): Layer.Layer<TestShift | Ports, never, Exclude<R, Ports>> => {
  const queues = options.queues ?? options.handlers.map(({ kind }) => kind.queue)
  const shift = Layer.scoped(
    TestShift,
    Effect.gen(function* () {
      const table = yield* JobsMemory
      const search = yield* JobSearch
      const context = yield* Effect.context<R | Ports>()
      let pod: {
        readonly scope: Scope.CloseableScope
        readonly sever: () => void
        readonly crew: typeof Crew.Crew.Service
      }

      const hirePod = Effect.gen(function* () {
        const scope = yield* Scope.make()
        const severable = Severed.make(Context.get(context, Queue))
        const built = yield* Crew.layer({ handlers: options.handlers, queues }).pipe(
          Layer.provide(configs(options)),
          Layer.provide(Layer.succeed(Queue, severable.queue)),
          Layer.orDie,
          Layer.buildWithScope(scope),
          Logger.withMinimumLogLevel(options.logLevel ?? LogLevel.Warning)
        )
        pod = { scope, sever: severable.sever, crew: Context.get(built, Crew.Crew) }
      })
      // What the handlers need is in the context, though the compiler cannot subtract it from a type it does not know.
      const startPod = Effect.mapInputContext(
        hirePod as Effect.Effect<void, never, R | Ports>,
        (_: Context.Context<never>) => context
      )

      const settle = Effect.gen(function* () {
        let still = 0
        let seen = table.changes()
        for (let step = 0; step < mostSteps; step += 1) {
          yield* breathe
          const changes = table.changes()
          still = changes === seen ? still + 1 : 0
          seen = changes
          if (still >= (pod.crew.isIdle() ? stillRounds.idle : stillRounds.busy)) return
        }
        return yield* Effect.dieMessage("the shift does not settle: a job makes itself due again without end")
      })

      const advance = (duration: Duration.DurationInput) =>
        settle.pipe(Effect.zipRight(TestClock.adjust(duration)), Effect.zipRight(settle))

      const nextInstant = Effect.gen(function* () {
        const jobs = yield* table.all
        const pending = jobs.filter(({ status }) => status === "pending").map(({ runAt }) => runAt)
        if (pending.length > 0) return Math.min(...pending)
        if (jobs.every(({ status }) => status !== "running")) return undefined
        const now = yield* Clock.currentTimeMillis
        const sleeps = Chunk.toReadonlyArray(yield* TestClock.sleeps()).filter((instant) => instant > now)
        return Math.min(...sleeps)
      })

      const drain = Effect.gen(function* () {
        for (let step = 0; step < mostSteps; step += 1) {
          yield* settle
          const next = yield* nextInstant
          if (next === undefined) return
          const now = yield* Clock.currentTimeMillis
          yield* TestClock.adjust(Duration.millis(Math.max(0, next - now)))
        }
        return yield* Effect.dieMessage(`the shift did not drain in ${mostSteps} steps`)
      })

      const stopPod = Effect.suspend(() => Scope.close(pod.scope, Exit.void))
      yield* startPod
      // A test may end while jobs run that nobody will advance the clock for: the pod is cut off and goes without waiting.
      yield* Effect.addFinalizer(() =>
        Effect.gen(function* () {
          pod.sever()
          const closing = yield* Effect.forkDaemon(stopPod)
          yield* Effect.zipRight(breathe, TestClock.adjust("1 hour")).pipe(Effect.repeatN(2))
          yield* Fiber.join(closing)
        })
      )
      return {
        settle,
        advance,
        drain,
        job: (id) =>
          Effect.catchTags(search.get(id), {
            DatabaseUnavailable: Effect.die,
            DatabaseConflict: Effect.die,
            DatabaseFault: Effect.die
          }),
        jobs: table.all,
        stopPod,
        crashPod: Effect.suspend(() => {
          pod.sever()
          return Effect.zipRight(Effect.forkDaemon(stopPod), startPod)
        })
      }
    })
  )
  const whole = shift.pipe(Layer.provideMerge(ports), Layer.provide(TestContext.TestContext))
  return whole as Layer.Layer<TestShift | Ports, never, Exclude<R, Ports>>
}
