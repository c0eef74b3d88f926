import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Layer, Ref, TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { Pods } from "../../src/cluster/Pods.js"
import { loopFiber } from "../../src/core/Loop.js"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { runLoop } from "../../src/telemetry/LoopRunner.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as VirtualClock from "../../src/testing/VirtualClock.js"
import { ClusterConfig } from "../../src/worker/ClusterConfig.js"
import { PodHeartbeat } from "../../src/worker/loops/PodHeartbeat.js"
import * as Reaper from "../../src/worker/loops/Reaper.js"
import { WorkerConfig } from "../../src/worker/WorkerConfig.js"

/** The reaper's steps in order, each with its minute. */
class Diary extends Context.Tag("test/Diary")<Diary, Ref.Ref<ReadonlyArray<string>>>() {}

/** Keeps a step from saying that it has nothing to do for a while, so that virtual time skips none of its passes. */
const always = Effect.locally(loopFiber, undefined)

const note = (what: string) =>
  Effect.gen(function* () {
    const clock = yield* Effect.clock
    const minute = Math.floor(clock.unsafeCurrentTimeMillis() / 60_000)
    yield* Ref.update(yield* Diary, (lines) => [...lines, `${minute} ${what}`])
  })

type Trouble = "none" | "fails" | "hangs"

/** The stores in memory with recorded calls. The step that recovers jobs has the given trouble. */
const watched = (trouble: Trouble) =>
  Layer.mergeAll(
    Layer.effect(
      Queue,
      Effect.gen(function* () {
        const queue = yield* Queue
        const diary = yield* Effect.context<Diary>()
        const recover = {
          none: (stuckFor: Duration.Duration) => always(queue.recoverStuck(stuckFor)),
          fails: () => new DatabaseFault({ detail: "broken on purpose" }),
          hangs: () => Effect.never
        }[trouble]
        return {
          ...queue,
          recoverStuck: (stuckFor) =>
            Effect.zipRight(
              Effect.provide(
                note(Duration.isFinite(stuckFor) ? `recover ${Duration.format(stuckFor)}` : "watch"),
                diary
              ),
              recover(stuckFor)
            )
        }
      })
    ),
    Layer.effect(
      Pods,
      Effect.gen(function* () {
        const pods = yield* Pods
        const diary = yield* Effect.context<Diary>()
        return {
          ...pods,
          removeDead: (silent) =>
            Effect.zipRight(
              Effect.provide(note(Duration.isFinite(silent) ? "pods" : "watch pods"), diary),
              always(pods.removeDead(silent))
            )
        }
      })
    )
  ).pipe(Layer.provide(ClusterMemory.layer), Layer.provide(QueueMemory.layer), Layer.provide(Wakeups.layer))

const settings = (given: Readonly<Record<string, string>>) =>
  Layer.merge(ClusterConfig.layer, WorkerConfig.layer).pipe(
    Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(given)))))
  )

const heartbeat = (steadyFor: Duration.Duration) =>
  Layer.succeed(PodHeartbeat, {
    assignment: () => ({ shares: new Map(), servingPods: new Map(), otherReleases: new Map(), silent: [] }),
    onOrders: () => Effect.void,
    onSilence: () => Effect.void,
    steadyFor: Effect.succeed(steadyFor),
    undisturbedFor: Effect.succeed(steadyFor),
    drain: Effect.void
  })

/** Every thirty minutes, and jobs that were quiet for the stuck timeout every two hours. */
const given = { QUEUE_REAPER_INTERVAL: "30m", QUEUE_STALE_AFTER: "50m", QUEUE_JANITOR_INTERVAL: "2h" }

const reaper = (
  options: {
    readonly trouble?: Trouble
    readonly given?: Readonly<Record<string, string>>
    readonly steadyFor?: Duration.Duration
  } = {}
) =>
  Layer.scopedDiscard(Effect.flatMap(Reaper.make(new Map()), runLoop)).pipe(
    Layer.provide(watched(options.trouble ?? "none")),
    Layer.provide(settings(options.given ?? given)),
    Layer.provide(heartbeat(options.steadyFor ?? Duration.hours(1))),
    Layer.provideMerge(Metrics.layer),
    Layer.provideMerge(Layer.effect(Diary, Ref.make<ReadonlyArray<string>>([]))),
    Layer.provide(VirtualClock.layer)
  )

const lines = Effect.flatMap(Diary, Ref.get)

describe("the reaper", () => {
  it.effect("begins at the start, and recovers jobs by the stuck timeout once per janitor interval", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("2 hours")
      const recovers = (yield* lines).filter((line) => line.includes("recover"))
      expect(recovers).toEqual([
        "0 recover 30m",
        "30 recover 50m",
        "60 recover 50m",
        "90 recover 50m",
        "120 recover 30m"
      ])
    }).pipe(Effect.provide(reaper()))
  )

  it.effect("keeps the janitor interval for a week where it is the shorter one", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("7 days")
      const expected = Array.from({ length: 169 }, (_, hour) => [
        `${hour * 60} recover 30m`,
        `${hour * 60} pods`
      ]).flat()
      expect(yield* lines).toEqual(expected)
    }).pipe(Effect.provide(reaper({ given: { ...given, QUEUE_REAPER_INTERVAL: "24h", QUEUE_JANITOR_INTERVAL: "1h" } })))
  )

  it.effect("never waits longer than the stale time, however long the stuck timeout is", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("1 second")
      expect(yield* lines).toEqual(["0 recover 1m", "0 pods"])
    }).pipe(Effect.provide(reaper({ given: {} })))
  )

  it.effect("only watches heartbeats while this pod could not send its own", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("1 second")
      expect(yield* lines).toEqual(["0 watch", "0 watch pods"])
    }).pipe(Effect.provide(reaper({ steadyFor: Duration.seconds(19) })))
  )

  it.effect("runs one step even if the other fails, retries in the next pass, and counts the failure", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("30 minutes")
      expect(yield* lines).toEqual(["0 recover 30m", "0 pods", "30 recover 50m", "30 pods"])
      const text = yield* Effect.flatMap(Metrics, (metrics) => metrics.render)
      expect(text).toContain('nightshift_loop_passes_total{loop="reaper",outcome="error"} 2')
    }).pipe(Effect.provide(reaper({ trouble: "fails" })))
  )

  it.effect("times a hanging step out after thirty seconds, and continues", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("29 seconds")
      expect(yield* lines).toEqual(["0 recover 30m"])
      yield* TestClock.adjust("1 second")
      expect(yield* lines).toEqual(["0 recover 30m", "0 pods"])
    }).pipe(Effect.provide(reaper({ trouble: "hangs" })))
  )

  it.effect("uses the defaults for settings that are not positive", () =>
    Effect.gen(function* () {
      const config = yield* ClusterConfig
      expect(Duration.toHours(config.doneRetention)).toBe(168)
      expect(Duration.toMinutes(config.stuckTimeout)).toBe(30)
      expect(Duration.toHours(config.janitorInterval)).toBe(1)
    }).pipe(
      Effect.provide(settings({ QUEUE_DONE_RETENTION: "0", QUEUE_STUCK_TIMEOUT: "-5m", QUEUE_JANITOR_INTERVAL: "0s" }))
    )
  )
})
