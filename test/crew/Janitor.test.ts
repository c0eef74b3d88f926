import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Layer, Ref, TestClock } from "effect"
import { idleSteps } from "../../src/core/Loop.js"
import * as Janitor from "../../src/crew/loops/Janitor.js"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { runLoop } from "../../src/telemetry/LoopRunner.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as VirtualClock from "../../src/testing/VirtualClock.js"

/** The janitor's steps in order, each with its minute. */
class Diary extends Context.Tag("test/Diary")<Diary, Ref.Ref<ReadonlyArray<string>>>() {}

/** Keeps a step from saying that it has nothing to do for a while, so that virtual time skips none of its passes. */
const always = Effect.locally(idleSteps, undefined)

/** The queue in memory with recorded maintenance calls, which fail as the test says. */
const watched = (faulty: "recover" | "purge" | "none", slow: "recover" | "none" = "none") =>
  Layer.effect(
    Queue,
    Effect.gen(function* () {
      const queue = yield* Queue
      const diary = yield* Diary
      const note = (what: string) =>
        Effect.gen(function* () {
          const clock = yield* Effect.clock
          const minute = Math.floor(clock.unsafeCurrentTimeMillis() / 60_000)
          yield* Ref.update(diary, (lines) => [...lines, `${minute} ${what}`])
        })
      const fault = new DatabaseFault({ detail: "broken on purpose" })
      return {
        ...queue,
        recoverStuck: (stuckFor: Duration.Duration) =>
          Effect.zipRight(
            note("recover"),
            faulty === "recover" ? fault : slow === "recover" ? Effect.never : always(queue.recoverStuck(stuckFor))
          ),
        purge: (usual: Duration.Duration) =>
          Effect.zipRight(note("purge"), faulty === "purge" ? fault : always(queue.purge(usual)))
      }
    })
  ).pipe(Layer.provide(QueueMemory.layer), Layer.provide(Wakeups.layer))

const config = Layer.succeed(Janitor.JanitorConfig, {
  doneRetention: Duration.hours(168),
  stuckTimeout: Duration.minutes(30),
  interval: Duration.hours(1)
})

const hired = (queue: Layer.Layer<Queue, never, Diary>) =>
  Layer.scopedDiscard(Effect.flatMap(Janitor.make, runLoop)).pipe(
    Layer.provide(queue),
    Layer.provide(config),
    Layer.provideMerge(Metrics.layer),
    Layer.provideMerge(Layer.effect(Diary, Ref.make<ReadonlyArray<string>>([]))),
    Layer.provide(VirtualClock.layer)
  )

const lines = Effect.flatMap(Diary, Ref.get)

describe("the janitor", () => {
  it.effect("runs its first round at start, recovering before it purges", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("1 second")
      expect(yield* lines).toEqual(["0 recover", "0 purge"])
    }).pipe(Effect.provide(hired(watched("none"))))
  )

  it.effect("keeps its interval for a week", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("7 days")
      const expected = Array.from({ length: 169 }, (_, hour) => [`${hour * 60} recover`, `${hour * 60} purge`]).flat()
      expect(yield* lines).toEqual(expected)
    }).pipe(Effect.provide(hired(watched("none"))))
  )

  it.effect("runs one step even if the other fails, retries in the next round, and counts the failure", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("1 hour")
      expect(yield* lines).toEqual(["0 recover", "0 purge", "60 recover", "60 purge"])
      const text = yield* Effect.flatMap(Metrics, (metrics) => metrics.render)
      expect(text).toContain('nightshift_loop_passes_total{loop="janitor",outcome="error"} 2')
    }).pipe(Effect.provide(hired(watched("recover"))))
  )

  it.effect("times a hanging step out after thirty seconds, and continues", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("29 seconds")
      expect(yield* lines).toEqual(["0 recover"])
      yield* TestClock.adjust("1 second")
      expect(yield* lines).toEqual(["0 recover", "0 purge"])
    }).pipe(Effect.provide(hired(watched("none", "recover"))))
  )

  it.effect("uses the defaults for settings that are not positive", () =>
    Effect.gen(function* () {
      const settings = yield* Janitor.JanitorConfig
      expect(Duration.toHours(settings.doneRetention)).toBe(168)
      expect(Duration.toMinutes(settings.stuckTimeout)).toBe(30)
      expect(Duration.toHours(settings.interval)).toBe(1)
    }).pipe(
      Effect.provide(Janitor.JanitorConfig.layer),
      Effect.withConfigProvider(
        ConfigProvider.fromMap(
          new Map([
            ["QUEUE_DONE_RETENTION", "0"],
            ["QUEUE_STUCK_TIMEOUT", "-5m"],
            ["QUEUE_JANITOR_INTERVAL", "0s"]
          ])
        )
      )
    )
  )
})
