import { describe, expect, it } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Scope, TestClock } from "effect"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { MetricsConfig } from "../../src/history/MetricsConfig.js"
import * as MetricsFlush from "../../src/history/MetricsFlush.js"
import { MinuteBuckets } from "../../src/history/MinuteBuckets.js"
import * as MinuteBucketsMemory from "../../src/history/MinuteBucketsMemory.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Tally } from "../../src/telemetry/Tally.js"

type Answer = Effect.Effect<void, DatabaseUnavailable>

/** A pod that counts, a store for its counts, and a switch for whether writes arrive. */
const makePod = Effect.gen(function* () {
  const real = Context.get(yield* Layer.build(MinuteBucketsMemory.layer), MinuteBuckets)
  let flushes = 0
  let answer: Answer = Effect.void
  let reply: Answer = Effect.void
  const buckets = MinuteBuckets.of({
    ...real,
    record: (...counts) => {
      flushes += 1
      return Effect.suspend(() => answer).pipe(
        Effect.zipRight(real.record(...counts)),
        Effect.zipRight(Effect.suspend(() => reply))
      )
    }
  })
  const scope = yield* Scope.make()
  const context = yield* MetricsFlush.layer.pipe(
    Layer.provide(Layer.succeed(MinuteBuckets, buckets)),
    Layer.provide(
      Layer.succeed(MetricsConfig, {
        flush: Duration.seconds(2),
        retention: Duration.days(30),
        oldTransaction: Duration.minutes(5)
      })
    ),
    Layer.provide(Metrics.layer),
    Layer.buildWithScope(scope)
  )
  const mail = Context.get(context, Tally).of("mail", "greet")
  const now = Effect.map(Effect.clock, (clock) => clock.unsafeCurrentTimeMillis())
  return {
    flushes: () => flushes,
    answering: (next: Answer) =>
      Effect.sync(() => {
        answer = next
      }),
    replying: (next: Answer) =>
      Effect.sync(() => {
        reply = next
      }),
    store: (count: number) => Effect.map(now, (at) => mail.enqueued(count, at)),
    /** Stored counts, per minute. */
    kept: Effect.map(real.series({ from: 0, to: 5 * 60_000, width: Duration.minutes(1) }), (points) =>
      points.map(({ enqueued }) => enqueued)
    ),
    close: Scope.close(scope, Exit.void)
  }
})

const away = Effect.fail(new DatabaseUnavailable({ detail: "away", nothingWritten: true }))

describe("the metrics flush", () => {
  it.scoped("writes the open minute two seconds after a count, and nothing when nothing was counted", () =>
    Effect.gen(function* () {
      const pod = yield* makePod
      yield* TestClock.adjust("10 seconds")
      expect(pod.flushes()).toBe(0)
      yield* pod.store(3)
      yield* TestClock.adjust("1999 millis")
      expect(yield* pod.kept).toEqual([0, 0, 0, 0, 0])
      yield* pod.store(4)
      yield* TestClock.adjust("1 millis")
      expect(yield* pod.kept).toEqual([7, 0, 0, 0, 0])
      yield* pod.store(5)
      yield* TestClock.adjust("2 seconds")
      expect(yield* pod.kept).toEqual([12, 0, 0, 0, 0])
      yield* TestClock.adjust("1 hour")
      expect(pod.flushes()).toBe(2)
    })
  )

  it.scoped("writes a minute that ended between two flushes together with the new one", () =>
    Effect.gen(function* () {
      const pod = yield* makePod
      yield* TestClock.adjust("50 seconds")
      yield* pod.store(1)
      yield* TestClock.adjust("9 seconds")
      yield* pod.store(2)
      yield* TestClock.adjust("999 millis")
      yield* pod.store(4)
      yield* TestClock.adjust("1 millis")
      yield* pod.store(8)
      expect(yield* pod.kept).toEqual([1, 0, 0, 0, 0])
      yield* TestClock.adjust("2 seconds")
      expect(yield* pod.kept).toEqual([7, 8, 0, 0, 0])
    })
  )

  it.scoped("keeps minutes of counts it cannot write, and backs off while the database is unavailable", () =>
    Effect.gen(function* () {
      const pod = yield* makePod
      yield* pod.answering(away)
      yield* pod.store(1)
      yield* TestClock.adjust("1 minute")
      yield* pod.store(2)
      yield* TestClock.adjust("2 minutes")
      yield* pod.store(4)
      expect(pod.flushes()).toBeLessThan(14)
      expect(yield* pod.kept).toEqual([0, 0, 0, 0, 0])
      yield* pod.answering(Effect.void)
      yield* TestClock.adjust("15 seconds")
      expect(yield* pod.kept).toEqual([1, 2, 0, 4, 0])
    })
  )

  it.scoped("counts nothing twice when a flush arrives and its answer is lost", () =>
    Effect.gen(function* () {
      const pod = yield* makePod
      yield* pod.store(1)
      yield* TestClock.adjust("2 seconds")
      yield* pod.store(2)
      yield* pod.replying(away)
      yield* TestClock.adjust("2 seconds")
      expect(yield* pod.kept).toEqual([3, 0, 0, 0, 0])
      yield* pod.store(4)
      yield* pod.replying(Effect.void)
      yield* TestClock.adjust("15 seconds")
      expect(yield* pod.kept).toEqual([7, 0, 0, 0, 0])
    })
  )

  it.scoped("writes the last counts when the pod stops, including those of a running flush", () =>
    Effect.gen(function* () {
      const pod = yield* makePod
      const begun = yield* Deferred.make<void>()
      yield* pod.answering(Effect.zipRight(Deferred.succeed(begun, undefined), Effect.never))
      yield* pod.store(1)
      yield* TestClock.adjust("2 seconds")
      yield* Deferred.await(begun)
      yield* pod.store(2)
      yield* pod.answering(Effect.void)
      yield* pod.close
      expect(yield* pod.kept).toEqual([3, 0, 0, 0, 0])
    })
  )

  it.scoped("does not keep a process from exiting when the database does not answer", () =>
    Effect.gen(function* () {
      const pod = yield* makePod
      yield* pod.answering(Effect.never)
      yield* pod.store(1)
      const closing = yield* Effect.fork(pod.close)
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(closing)
    })
  )
})
