import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Layer, Ref, Schedule, TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { Pods } from "../../src/cluster/Pods.js"
import * as Setting from "../../src/core/Setting.js"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
import { Hints } from "../../src/database/Hints.js"
import { EventLoop } from "../../src/telemetry/EventLoop.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { ClusterConfig } from "../../src/worker/ClusterConfig.js"
import { PodHeartbeat } from "../../src/worker/loops/PodHeartbeat.js"
import { Pod } from "../../src/worker/Pod.js"
import { Supervisors } from "../../src/worker/slots/Supervisor.js"
import { WorkerConfig } from "../../src/worker/WorkerConfig.js"
import * as StepClock from "../support/StepClock.js"
import * as TestCluster from "./TestCluster.js"

const env = (entries: Record<string, string>) => ConfigProvider.fromMap(new Map(Object.entries(entries)))

/** A pod that only sends heartbeats, on the machine's own clock. */
const over = <Out>(pods: Layer.Layer<Pods | Out>) =>
  PodHeartbeat.layer({ queues: ["default"], kinds: [], releases: {} }).pipe(
    Layer.provideMerge(Pod.layer),
    Layer.provide(Supervisors.layer),
    Layer.provideMerge(pods),
    Layer.provide(Layer.mergeAll(ClusterConfig.layer, WorkerConfig.layer, Hints.layerLocal)),
    Layer.provideMerge(Metrics.layer)
  )
const alone = over(ClusterMemory.layer)

/** Blocks the event loop, as a CPU-bound handler does. */
const blockEventLoop = (millis: number) =>
  Effect.sync(() => {
    const end = performance.now() + millis
    while (performance.now() < end);
  })

describe("a pod", () => {
  it.scopedLive("counts a heartbeat that is late because the event loop was blocked", () =>
    Effect.gen(function* () {
      const metrics = yield* Metrics
      const late = Effect.map(metrics.render, (text) => /^nightshift_heartbeats_late_total (\d+)$/m.exec(text)?.[1])
      const pods = yield* Pods
      const beatAt = Effect.map(pods.live(Duration.minutes(1)), ([pod]) => pod?.heartbeatAt)
      const first = yield* beatAt
      yield* Effect.repeat(beatAt, { until: (at) => at !== first, schedule: Schedule.spaced("10 millis") })
      const before = yield* late
      yield* blockEventLoop(300)
      yield* Effect.repeat(late, { until: (count) => count !== before, schedule: Schedule.spaced("10 millis") })
    }).pipe(Effect.provide(alone), Effect.withConfigProvider(env({ NIGHTSHIFT_POD_HEARTBEAT: "100ms" })))
  )

  it.scoped("is undisturbed while the server answers its heartbeats soon, even if it sends them late", () =>
    Effect.gen(function* () {
      const untilSent = yield* Ref.make<Effect.Effect<void>>(Effect.void)
      const untilReply = yield* Ref.make<Effect.Effect<void, DatabaseFault>>(Effect.void)
      const eventLoop = Layer.succeed(EventLoop, {
        ...EventLoop.still,
        watch: Effect.succeed(Effect.as(Effect.flatten(Ref.get(untilSent)), { p99: 0, max: 0 }))
      })
      const pods = Layer.effect(
        Pods,
        Effect.map(Pods, (pods) => ({
          ...pods,
          beat: (...given: Parameters<typeof pods.beat>) =>
            Effect.zipRight(Effect.flatten(Ref.get(untilReply)), pods.beat(...given))
        }))
      ).pipe(Layer.provide(ClusterMemory.layer))
      const services = yield* Layer.build(Layer.provide(over(pods), eventLoop))
      const { undisturbedFor } = Context.get(services, PodHeartbeat)
      yield* TestClock.adjust("10 seconds")
      expect(yield* undisturbedFor).toEqual(Duration.seconds(10))
      yield* Ref.set(untilSent, Effect.sleep("3 seconds"))
      yield* TestClock.adjust("4 seconds")
      yield* Ref.set(untilSent, Effect.void)
      yield* TestClock.adjust("1 second")
      expect(yield* undisturbedFor).toEqual(Duration.seconds(15))
      yield* Ref.set(untilReply, Effect.sleep("2500 millis"))
      yield* TestClock.adjust("4 seconds")
      yield* Ref.set(untilReply, Effect.void)
      yield* TestClock.adjust("4 seconds")
      expect(Duration.toSeconds(yield* undisturbedFor)).toBeLessThan(6)
      yield* TestClock.adjust("10 seconds")
      yield* Ref.set(untilReply, new DatabaseFault({ detail: "broken on purpose" }))
      yield* TestClock.adjust("1 second")
      yield* Ref.set(untilReply, Effect.void)
      yield* TestClock.adjust("2 seconds")
      expect(Duration.toSeconds(yield* undisturbedFor)).toBeLessThan(4)
    })
  )

  it.scoped("is not steady in an outage, nor after it until it has sent heartbeats again", () =>
    Effect.gen(function* () {
      const isAway = yield* Ref.make(false)
      const away = new DatabaseFault({ detail: "away on purpose" })
      const pods = Layer.effect(
        Pods,
        Effect.map(Pods, (pods) => ({
          ...pods,
          beat: (...given: Parameters<typeof pods.beat>) =>
            Effect.if(Ref.get(isAway), { onTrue: () => away, onFalse: () => pods.beat(...given) })
        }))
      ).pipe(Layer.provide(ClusterMemory.layer))
      const services = yield* Layer.build(over(pods))
      const { steadyFor } = Context.get(services, PodHeartbeat)
      yield* TestClock.adjust("30 seconds")
      expect(yield* steadyFor).toEqual(Duration.seconds(30))
      yield* Ref.set(isAway, true)
      // A few late heartbeats are no outage.
      yield* TestClock.adjust("10 seconds")
      expect(yield* steadyFor).toEqual(Duration.seconds(40))
      yield* TestClock.adjust("1 minute")
      yield* Ref.set(isAway, false)
      expect(yield* steadyFor).toEqual(Duration.zero)
      yield* TestClock.adjust("3 seconds")
      expect(Duration.toSeconds(yield* steadyFor)).toBeLessThanOrEqual(3)
      yield* TestClock.adjust("20 seconds")
      expect(Duration.toSeconds(yield* steadyFor)).toBeGreaterThanOrEqual(20)
    })
  )

  it.scopedLive("is listed with the label and version it was given", () =>
    Effect.gen(function* () {
      const { id, label } = yield* Pod
      expect(label).toBe("shop-worker-1.4.2-eu-1")
      const live = yield* Effect.flatMap(Pods, (pods) => pods.live(Duration.minutes(1)))
      expect(live).toMatchObject([{ id, label, version: "1.4.2", host: { pid: process.pid, node: process.version } }])
      const text = yield* Effect.flatMap(Metrics, (metrics) => metrics.render)
      expect(text).toContain('nightshift_pod_info{label="shop-worker-1.4.2-eu-1",version="1.4.2"} 1')
    }).pipe(
      Effect.provide(alone),
      Effect.withConfigProvider(
        env({
          NIGHTSHIFT_WORKER_PREFIX: " shop ",
          NIGHTSHIFT_WORKER_VERSION: "1.4.2",
          NIGHTSHIFT_WORKER_ID: "eu-1"
        })
      )
    )
  )

  it.scopedLive("is listed with its id and this release when no label is set or settings are blank", () =>
    Effect.gen(function* () {
      const { id, label, version } = yield* Pod
      expect(label).toBeUndefined()
      const text = yield* Effect.flatMap(Metrics, (metrics) => metrics.render)
      expect(text).toContain(`nightshift_pod_info{label="${id}",version="${version}"} 1`)
    }).pipe(
      Effect.provide(alone),
      Effect.withConfigProvider(env({ NIGHTSHIFT_WORKER_PREFIX: "  ", NIGHTSHIFT_WORKER_VERSION: "" }))
    )
  )

  for (const [given, refusal] of [
    [{ QUEUE_STALE_AFTER: "20s" }, "QUEUE_STALE_AFTER: expected at least 3 times QUEUE_HEARTBEAT (10s), got 20s"],
    [
      { QUEUE_HEARTBEAT: "6s", QUEUE_STUCK_TIMEOUT: "15s" },
      "QUEUE_STUCK_TIMEOUT: expected at least 3 times QUEUE_HEARTBEAT (6s), got 15s"
    ],
    [{ NIGHTSHIFT_LEASE: "2s" }, "NIGHTSHIFT_LEASE: expected at least 3 times NIGHTSHIFT_POD_HEARTBEAT (1s), got 2s"]
  ] as const) {
    it.effect(`refuses a limit that a single late heartbeat would exceed: ${Object.keys(given)}`, () =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(Effect.provide(ClusterConfig, ClusterConfig.layer))
        expect(Setting.problems(error)).toEqual([refusal])
      }).pipe(Effect.withConfigProvider(env(given)))
    )
  }
})

describe("an idle pod with ten queues", () => {
  it.scopedLive("sends about two statements a second, and three when it leads", () =>
    Effect.gen(function* () {
      const queues = Array.from({ length: 10 }, (_, n) => `queue-${n}`)
      const leader = yield* TestCluster.hire({ queues })
      const other = yield* TestCluster.hire({ queues })
      yield* StepClock.advance("10 seconds")
      const perSecond = (pod: TestCluster.CampPod) => {
        // A heartbeat without running jobs sends no query.
        const asked = [...pod.calls].filter(([method]) => method !== "heartbeat")
        return asked.reduce((sum, [, count]) => sum + count, 0) / 30
      }
      for (const pod of [leader, other]) pod.calls.clear()
      yield* StepClock.advance("30 seconds")
      expect(perSecond(other)).toBeLessThan(2.2)
      expect(perSecond(leader)).toBeLessThan(3.5)
      // Nothing changed, so nothing was assigned.
      expect(leader.calls.get("assign")).toBeUndefined()
    }).pipe(Effect.provide(TestCluster.layer))
  )
})
