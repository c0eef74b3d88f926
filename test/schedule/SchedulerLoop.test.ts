import { describe, expect, it } from "@effect/vitest"
import { Clock, Duration, Effect, Layer, Logger, LogLevel, Option, Ref, TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { Leadership } from "../../src/cluster/Leadership.js"
import { makeGenerator } from "../../src/core/Ids.js"
import { type DatabaseError, DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { JobsMemory } from "../../src/queue/JobsMemory.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { defaults } from "../../src/schedule/ScheduleDefinition.js"
import { SchedulerConfig } from "../../src/schedule/SchedulerConfig.js"
import * as SchedulerLoop from "../../src/schedule/SchedulerLoop.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import * as SchedulesMemory from "../../src/schedule/SchedulesMemory.js"
import { TickOutcome } from "../../src/schedule/TickOutcome.js"
import { repeatCounted } from "../../src/telemetry/LoopRunner.js"
import { Metrics } from "../../src/telemetry/Metrics.js"

const world = Layer.mergeAll(SchedulesMemory.layer, ClusterMemory.leadership).pipe(
  Layer.provideMerge(QueueMemory.layer),
  Layer.provideMerge(
    Layer.mergeAll(
      Wakeups.layer,
      Transactions.layerMemory,
      Metrics.layer,
      Layer.succeed(SchedulerConfig, { poll: Duration.seconds(5), onTime: Duration.seconds(20) })
    )
  )
)

/** Runs the leader's scheduler until the test ends. */
const start = Effect.gen(function* () {
  const leadership = yield* Leadership
  const term = yield* leadership.campaign((yield* makeGenerator).pod(1), Duration.days(20))
  const duty = yield* SchedulerLoop.make
  yield* Effect.forkScoped(repeatCounted(duty(Option.getOrThrow(term))))
  yield* TestClock.adjust(0)
})

const create = (cron: string, name = "often") =>
  Effect.flatMap(Schedules, (schedules) =>
    schedules.create({ ...defaults, name, kind: "k", payload: {}, cron, queue: undefined, attempts: undefined })
  )

const createdAt = Effect.flatMap(JobsMemory, ({ all }) =>
  Effect.map(all, (jobs) => jobs.map((job) => job.createdAt / 1_000))
)

/** Counts every query of the schedules, and fails them while the switch is on. */
const watched = (away: Ref.Ref<boolean>, asked: Ref.Ref<number>) =>
  Layer.effect(
    Schedules,
    Effect.map(Schedules, (schedules) => {
      const error = new DatabaseUnavailable({ detail: "away on purpose", nothingWritten: true })
      const guard = <A>(effect: Effect.Effect<A, DatabaseError>): Effect.Effect<A, DatabaseError> =>
        Effect.zipRight(
          Ref.update(asked, (count) => count + 1),
          Effect.flatMap(Ref.get(away), (isAway) => (isAway ? error : effect))
        )
      return {
        ...schedules,
        nextInstant: guard(schedules.nextInstant),
        due: (limit: number) => guard(schedules.due(limit))
      }
    })
  )

describe("the leader's scheduler", () => {
  it.scoped("fires on time, including schedules that are created or changed meanwhile", () =>
    Effect.gen(function* () {
      yield* start
      yield* create("10 * * * * *")
      yield* TestClock.adjust("30 seconds")
      yield* create("33 * * * * *", "another")
      yield* TestClock.adjust("5 seconds")
      yield* Effect.flatMap(Schedules, (schedules) => schedules.edit("often", { cron: "36 * * * * *" }))
      yield* TestClock.adjust("65 seconds")
      expect(yield* createdAt).toEqual([10, 33, 36, 93, 96])
    }).pipe(Effect.provide(world))
  )

  it.scoped("recovers within seconds after a database outage, and pauses nothing", () =>
    Effect.gen(function* () {
      const away = yield* Ref.make(false)
      const asked = yield* Ref.make(0)
      yield* Effect.gen(function* () {
        yield* start
        yield* create("0 * * * * *")
        yield* TestClock.adjust("50 seconds")
        yield* Ref.set(away, true)
        yield* TestClock.adjust("4 minutes")
        expect(yield* createdAt).toEqual([])
        yield* Ref.set(away, false)
        yield* TestClock.adjust("5 seconds")
        expect(yield* createdAt).toHaveLength(1)
        const schedule = yield* Effect.flatMap(Schedules, (schedules) => schedules.get("often"))
        expect(schedule).toMatchObject({ paused: false, lastError: undefined, lastFireAt: 240_000 })
      }).pipe(Effect.provide(watched(away, asked)))
    }).pipe(Logger.withMinimumLogLevel(LogLevel.None), Effect.provide(world))
  )

  it.scoped("sends one query per poll while nothing is due", () =>
    Effect.gen(function* () {
      const asked = yield* Ref.make(0)
      yield* Effect.gen(function* () {
        yield* start
        yield* create("0 12 * * *")
        yield* TestClock.adjust("1 second")
        const before = yield* Ref.get(asked)
        yield* TestClock.adjust("60 seconds")
        expect((yield* Ref.get(asked)) - before).toBe(12)
      }).pipe(Effect.provide(watched(yield* Ref.make(false), asked)))
    }).pipe(Effect.provide(world))
  )

  it.scoped("shows the last fire from before its election", () =>
    Effect.gen(function* () {
      yield* create("0 12 * * *")
      const job = (yield* makeGenerator).job(yield* Clock.currentTimeMillis)
      yield* Effect.flatMap(Schedules, (schedules) => schedules.note("often", [TickOutcome.Fired({ at: 7_000, job })]))
      yield* start
      const text = yield* Effect.flatMap(Metrics, ({ render }) => render)
      expect(text).toContain('nightshift_schedule_last_fire_timestamp_seconds{schedule="often"} 7\n')
    }).pipe(Effect.provide(world))
  )
})
