import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Exit, Layer, Option, Schedule, Scope } from "effect"
import { Pods } from "../../src/cluster/Pods.js"
import * as PodsPg from "../../src/cluster/PodsPg.js"
import { makeGenerator, type PodId } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { podFacts } from "../support/PodFacts.js"
import { holdersOf, untilHeld } from "../support/PodLock.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const layer = PodsPg.layer.pipe(
  Layer.provideMerge(Listener.layer),
  Layer.provideMerge(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

const open = Effect.gen(function* () {
  const pods = yield* Pods
  const ids = yield* makeGenerator
  const beat = (id: PodId) =>
    pods.beat(podFacts(id), { slots: [], draining: false }, Duration.seconds(15), Duration.seconds(2))
  return { pods, beat, pod: ids.pod(1), observer: ids.pod(2) }
})

const often = Schedule.spaced("10 millis")

describe("the lock of a pod on PostgreSQL", () => {
  it.scopedLive("is taken again in a new session when its session ends, and counts from then on", () =>
    Effect.gen(function* () {
      const { pod, pods } = yield* open
      const { sql } = yield* Database
      const heldFor = yield* pods.holdLock(pod)
      yield* untilHeld(heldFor)
      const [before = 0] = yield* holdersOf(pod)
      yield* SteppableClock.advance("1 minute")
      expect(yield* heldFor).toEqual(Option.some(Duration.minutes(1)))
      yield* sql`select pg_terminate_backend(${before}, 5000)`
      const isAnother = (pids: ReadonlyArray<number>) => pids.some((pid) => pid !== before)
      yield* Effect.repeat(holdersOf(pod), { until: isAnother, schedule: often })
      expect(yield* untilHeld(heldFor)).toEqual(Option.some(Duration.zero))
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive(
    "proves nothing about a pod whose last heartbeat was stored by another server, as after a failover",
    () =>
      Effect.gen(function* () {
        const { beat, observer, pod, pods } = yield* open
        const { sql } = yield* Database
        const session = yield* Scope.make()
        const heldFor = yield* Scope.extend(pods.holdLock(pod), session)
        yield* untilHeld(heldFor)
        yield* beat(pod)
        yield* Scope.close(session, Exit.void)
        yield* Effect.repeat(holdersOf(pod), { until: (pids) => pids.length === 0, schedule: often })
        yield* untilHeld(yield* pods.holdLock(observer))
        const [row] = yield* sql<{ server: string }>`select server from nightshift.pod where id = ${pod}`
        yield* sql`update nightshift.pod set server = '10.0.0.1:5432 since 2026-01-02T03:04:05.678901Z' where id = ${pod}`
        yield* beat(observer)
        yield* SteppableClock.advance("10 seconds")
        expect((yield* beat(observer)).silent).toEqual([])
        expect(yield* pods.removeUnlocked(observer)).toEqual([])
        yield* sql`update nightshift.pod set server = ${row?.server ?? ""} where id = ${pod}`
        expect((yield* beat(observer)).silent).toEqual([pod])
        expect(yield* pods.removeUnlocked(observer)).toEqual([])
        yield* SteppableClock.advance("1 second")
        yield* beat(observer)
        expect(yield* pods.removeUnlocked(observer)).toMatchObject([{ id: pod }])
      }).pipe(Effect.provide(layer))
  )

  it.scopedLive("leaves jobs that a session of the dead pod has locked, and says that it has", () =>
    Effect.gen(function* () {
      const { pod } = yield* open
      const queue = yield* Queue
      yield* queue.enqueue([{ kind: "greet", version: 1, queue: "mail", payload: {}, attempts: 3 }])
      const [run] = yield* queue.claim({ queue: "mail", pod, limit: 1 })
      const session = yield* TestDatabase.connection
      const send = (text: string) => Effect.promise(() => session.query(text))
      yield* send("begin")
      yield* send(`select from nightshift.job where id = '${run?.id}' for update`)
      const none = { rescued: 0, poisoned: 0, cancelled: 0 }
      expect(yield* queue.recoverOrphaned([pod])).toEqual({ ...none, left: [pod] })
      yield* send("rollback")
      expect(yield* queue.recoverOrphaned([pod])).toEqual({ ...none, rescued: 1, left: [] })
    }).pipe(Effect.provide(Layer.provideMerge(QueuePg.layer, layer)))
  )

  it.scopedLive("is not recorded for a pod without its own session", () =>
    Effect.gen(function* () {
      const { beat, pod, pods } = yield* open
      const { sql } = yield* Database
      const heldFor = yield* pods.holdLock(pod)
      expect(yield* heldFor).toEqual(Option.none())
      yield* beat(pod)
      expect(yield* sql`select dead_after_ms from nightshift.pod`).toEqual([{ dead_after_ms: null }])
    }).pipe(
      Effect.provide(
        PodsPg.layer.pipe(
          Layer.provide(Listener.layerPolling),
          Layer.provideMerge(TestDatabase.layer),
          Layer.provideMerge(SteppableClock.layer)
        )
      )
    )
  )
})
