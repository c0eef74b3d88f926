import { expect } from "@effect/vitest"
import { Duration, Effect, Exit, Option, Schedule, Scope } from "effect"
import type { PodFacts } from "../../src/cluster/Pods.js"
import { setBy } from "../support/SetClock.js"
import type { ClusterLaw, TestCluster } from "./ClusterLaws.js"
import type { Advance } from "./Line.js"

const deadAfter = Duration.seconds(2)

const held = ({ pods }: TestCluster, { id }: PodFacts) =>
  Effect.tap(pods.holdLock(id), (heldFor) =>
    Effect.repeat(heldFor, { until: Option.isSome, schedule: Schedule.spaced("10 millis") })
  )

/** Takes a pod's lock, as its process does. Returns an effect that frees it. */
const locked = (cluster: TestCluster, pod: PodFacts) =>
  Effect.gen(function* () {
    const session = yield* Scope.make()
    const heldFor = yield* Scope.extend(held(cluster, pod), session)
    // A database frees it a moment later, but before it gives the same connection another one.
    const freed = Effect.scoped(held(cluster, cluster.newPod()))
    return { heldFor, end: Effect.zipRight(Scope.close(session, Exit.void), freed) }
  })

/** A heartbeat of a pod that is dead after two seconds without a lock. */
const beat = ({ pods }: TestCluster, pod: PodFacts) =>
  pods.beat(pod, { slots: [], draining: false }, Duration.seconds(15), deadAfter)

/** A pod that holds its lock, and watches the others by its heartbeats. */
const newObserver = (cluster: TestCluster) =>
  Effect.gen(function* () {
    const observer = cluster.newPod()
    const { end } = yield* locked(cluster, observer)
    yield* Effect.addFinalizer(() => end)
    return observer
  })

/** Laws of the locks that show whether a pod's process lives. */
export const podLockLaws = (law: ClusterLaw, advance: Advance): void => {
  law(
    "a pod whose session has ended is removed once, with its shares, when it has been silent for its limit",
    (cluster) =>
      Effect.gen(function* () {
        const [dead, observer] = [cluster.newPod(), yield* newObserver(cluster)]
        const lock = yield* locked(cluster, dead)
        yield* beat(cluster, dead)
        yield* cluster.shares.assign(yield* cluster.newTerm, [{ queue: "mail", pod: dead.id, slots: 2 }])
        expect((yield* beat(cluster, observer)).silent).toEqual([])
        yield* lock.end
        yield* advance("1 second")
        expect((yield* beat(cluster, observer)).silent).toEqual([])
        for (const millis of [50, 900]) {
          expect(yield* cluster.pods.removeUnlocked(observer.id)).toEqual([])
          yield* advance(Duration.millis(millis))
          expect((yield* beat(cluster, observer)).silent).toEqual([dead.id])
        }
        expect(yield* cluster.pods.removeUnlocked(observer.id)).toEqual([])
        yield* advance("50 millis")
        yield* beat(cluster, observer)
        expect(yield* cluster.pods.removeUnlocked(observer.id)).toEqual([
          { id: dead.id, silentFor: Duration.seconds(2) }
        ])
        expect(yield* cluster.liveIds).toEqual([observer.id])
        expect(yield* cluster.sharesOf(dead)).toEqual([])
        expect(yield* cluster.pods.removeUnlocked(observer.id)).toEqual([])
        expect((yield* beat(cluster, observer)).silent).toEqual([])
      })
  )

  law("a silent pod whose lock was free for less than a heartbeat is kept", (cluster) =>
    Effect.gen(function* () {
      const [alive, observer] = [cluster.newPod(), yield* newObserver(cluster)]
      const lock = yield* locked(cluster, alive)
      yield* beat(cluster, alive)
      yield* beat(cluster, observer)
      yield* lock.end
      const removedLater = Effect.gen(function* () {
        yield* advance("1 second")
        yield* beat(cluster, observer)
        return yield* cluster.pods.removeUnlocked(observer.id)
      })
      yield* advance("5 seconds")
      expect(yield* removedLater).toEqual([])
      expect(yield* cluster.pods.removeUnlocked(observer.id)).toEqual([])
      const again = yield* locked(cluster, alive)
      expect(yield* removedLater).toEqual([])
      yield* again.end
      expect(yield* removedLater).toEqual([])
      expect(yield* removedLater).toMatchObject([{ id: alive.id }])
    })
  )

  law("a silent pod that holds its lock is kept", (cluster) =>
    Effect.gen(function* () {
      const [frozen, observer] = [cluster.newPod(), yield* newObserver(cluster)]
      const lock = yield* locked(cluster, frozen)
      yield* beat(cluster, frozen)
      yield* beat(cluster, observer)
      yield* advance("50 seconds")
      expect(yield* lock.heldFor).toEqual(Option.some(Duration.seconds(50)))
      for (const _ of [1, 2]) {
        expect((yield* beat(cluster, observer)).silent).toEqual([frozen.id])
        expect(yield* cluster.pods.removeUnlocked(observer.id)).toEqual([])
        yield* advance("1 second")
      }
      expect(yield* cluster.liveIds).toEqual([observer.id])
      yield* beat(cluster, frozen)
      expect(yield* cluster.liveIds).toEqual([frozen.id, observer.id].sort())
      yield* lock.end
    })
  )

  law("a pod that has sent a heartbeat since it lost its lock is kept, however long it is silent", (cluster) =>
    Effect.gen(function* () {
      const [alive, observer] = [cluster.newPod(), yield* newObserver(cluster)]
      const lock = yield* locked(cluster, alive)
      yield* beat(cluster, alive)
      yield* lock.end
      yield* beat(cluster, alive)
      yield* beat(cluster, observer)
      for (const _ of [1, 2]) {
        yield* advance("5 seconds")
        expect((yield* beat(cluster, observer)).silent).toEqual([])
        expect(yield* cluster.pods.removeUnlocked(observer.id)).toEqual([])
      }
      expect(yield* cluster.liveIds).toContain(alive.id)
    })
  )

  law("a pod that never held its lock, or that names no limit, is kept", (cluster) =>
    Effect.gen(function* () {
      const [starting, older, observer] = [cluster.newPod(), cluster.newPod(), yield* newObserver(cluster)]
      const lock = yield* locked(cluster, older)
      yield* beat(cluster, starting)
      yield* cluster.beat(older)
      yield* beat(cluster, observer)
      yield* lock.end
      yield* advance("14 seconds")
      expect((yield* beat(cluster, observer)).silent).toEqual([])
      expect(yield* cluster.pods.removeUnlocked(observer.id)).toEqual([])
      expect(yield* cluster.liveIds).toEqual([starting.id, older.id, observer.id].sort())
    })
  )

  law("a process must have watched a pod for its limit, by its monotonic clock, to remove it", (cluster) =>
    Effect.gen(function* () {
      const [dead, observer] = [cluster.newPod(), yield* newObserver(cluster)]
      const lock = yield* locked(cluster, dead)
      yield* beat(cluster, dead)
      yield* lock.end
      yield* advance("1 minute")
      const elsewhere = yield* setBy(-300_000)
      expect((yield* elsewhere(beat(cluster, observer))).silent).toEqual([])
      expect(yield* elsewhere(cluster.pods.removeUnlocked(observer.id))).toEqual([])
      yield* advance("2 seconds")
      expect((yield* elsewhere(beat(cluster, observer))).silent).toEqual([dead.id])
      expect(yield* elsewhere(cluster.pods.removeUnlocked(observer.id))).toEqual([])
      yield* advance("1 second")
      yield* elsewhere(beat(cluster, observer))
      expect(yield* elsewhere(cluster.pods.removeUnlocked(observer.id))).toMatchObject([{ id: dead.id }])
    })
  )

  law("a pod that does not hold its own lock removes none: all locks may have been lost at once", (cluster) =>
    Effect.gen(function* () {
      const [dead, observer, cut] = [cluster.newPod(), yield* newObserver(cluster), cluster.newPod()]
      const lock = yield* locked(cluster, dead)
      yield* beat(cluster, dead)
      yield* beat(cluster, observer)
      yield* lock.end
      for (const seconds of [2, 3]) {
        yield* advance(Duration.seconds(seconds))
        expect((yield* beat(cluster, observer)).silent).toEqual([dead.id])
        expect(yield* cluster.pods.removeUnlocked(cut.id)).toEqual([])
      }
      expect(yield* cluster.pods.removeUnlocked(observer.id)).toEqual([])
      yield* advance("1 second")
      yield* beat(cluster, observer)
      expect(yield* cluster.pods.removeUnlocked(observer.id)).toMatchObject([{ id: dead.id }])
    })
  )
}
