import { describe, expect, it } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Option, TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { Pods } from "../../src/cluster/Pods.js"
import * as Outcome from "../../src/core/Outcome.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { ClusterConfig } from "../../src/worker/ClusterConfig.js"
import { podIdOf } from "../../src/worker/remote/RemotePods.js"
import { RemoteWorkers } from "../../src/worker/remote/RemoteWorkers.js"
import { WorkerConfig } from "../../src/worker/WorkerConfig.js"
import { isLong } from "../support/Scale.js"

/** While closed, results wait as behind a locked row. `arrived` completes when the first of them does. */
interface Lock {
  readonly arrived: Deferred.Deferred<void>
  readonly released: Deferred.Deferred<void>
}
let lock: Lock | undefined

let claims = 0

/** Counts the claims that reach the queue, and holds results back while there is a lock. */
const counting = Layer.effect(
  Queue,
  Effect.map(Queue, (queue) => ({
    ...queue,
    claim: (request: Parameters<typeof queue.claim>[0]) =>
      Effect.suspend(() => {
        claims += 1
        return queue.claim(request)
      }),
    finalize: (...given: Parameters<typeof queue.finalize>) =>
      Effect.suspend(() => {
        const written = queue.finalize(...given)
        if (lock === undefined) return written
        const { arrived, released } = lock
        return Effect.zipRight(Effect.zipRight(Deferred.succeed(arrived, undefined), Deferred.await(released)), written)
      })
  }))
)

let beats = 0

/** Counts the calls that write the rows of workers. */
const countingBeats = Layer.effect(
  Pods,
  Effect.map(Pods, (pods) => ({
    ...pods,
    beatRemote: (...given: Parameters<typeof pods.beatRemote>) =>
      Effect.suspend(() => {
        beats += 1
        return pods.beatRemote(...given)
      })
  }))
)

const base = Layer.merge(counting, countingBeats).pipe(
  Layer.provideMerge(Layer.merge(QueueMemory.layer, ClusterMemory.layer)),
  Layer.provideMerge(Layer.orDie(Layer.mergeAll(ClusterConfig.layer, WorkerConfig.layer))),
  Layer.provideMerge(Layer.merge(Wakeups.layer, Metrics.layer))
)
const layer = Layer.provideMerge(RemoteWorkers.layer, base)

const about = (id: string) => ({ caller: "test", id, name: id, runtime: undefined, host: undefined, pid: undefined })

const poll = (
  id: string,
  seconds: number,
  { kinds, queues = ["q"] }: { kinds?: ReadonlyArray<string>; queues?: ReadonlyArray<string> } = {}
) =>
  Effect.flatMap(RemoteWorkers, (remote) =>
    remote.claim({
      worker: about(id),
      queues,
      kinds,
      max: 1,
      wait: Duration.seconds(seconds),
      ends: Effect.never
    })
  )

const enqueue = (count: number, queue = "q", kind = "k") =>
  Effect.flatMap(Queue, ({ enqueue }) =>
    enqueue(Array.from({ length: count }, (_, n) => ({ queue, kind, version: 1, payload: n, attempts: 5 })))
  )

const allowMany = Effect.flatMap(Queues, (queues) =>
  Effect.zipRight(queues.declare(["q"]), queues.change("q", { maxWorkers: 2_000 }))
)

/** Lets the time pass, with what the worker sends and what the leader removes every ten seconds. */
const passes = <R>(seconds: number, sent: Effect.Effect<unknown, unknown, R>) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const pods = yield* Pods
    const { staleAfter } = yield* ClusterConfig
    const reap = Effect.zipRight(queue.recoverStuck(staleAfter), pods.removeDead(staleAfter))
    const pass = Effect.orDie(sent).pipe(Effect.zipRight(reap), Effect.zipRight(TestClock.adjust("10 seconds")))
    yield* Effect.repeatN(pass, seconds / 10 - 1)
    return (yield* pods.present(staleAfter)).map(({ id }) => id)
  })

describe("remote workers", () => {
  it.scoped("wait in their thousands for one claim, and each job reaches one of them", () =>
    Effect.gen(function* () {
      yield* allowMany
      claims = 0
      const waiting = isLong ? 1_000 : 100
      const polls = yield* Effect.forEach(Array.from({ length: waiting }), (_, n) =>
        Effect.fork(poll(`w${n % 10}`, 40))
      )
      yield* TestClock.adjust("10 seconds")
      expect(claims).toBe(1)
      yield* enqueue(1)
      yield* TestClock.adjust("1 second")
      expect(claims).toBeLessThan(4)
      yield* enqueue(waiting / 2)
      yield* TestClock.adjust("1 minute")
      const given = (yield* Effect.forEach(polls, Fiber.join)).flat()
      expect(given).toHaveLength(waiting / 2 + 1)
      expect(new Set(given.map(({ id }) => id)).size).toBe(waiting / 2 + 1)
    }).pipe(Effect.provide(layer))
  )

  it.scoped("that arrive at once are announced together, and each is answered", () =>
    Effect.gen(function* () {
      yield* allowMany
      const arriving = 200
      yield* enqueue(arriving)
      beats = 0
      const polls = Array.from({ length: arriving }, (_, n) => poll(`new ${n}`, 0))
      const given = (yield* Effect.all(polls, { concurrency: "unbounded" })).flat()
      expect(beats).toBeLessThan(5)
      expect(new Set(given.map(({ id }) => id)).size).toBe(arriving)
    }).pipe(Effect.provide(layer))
  )

  it.scoped("end a request whose result waits behind a locked row, and the result is written later", () =>
    Effect.gen(function* () {
      const remote = yield* RemoteWorkers
      yield* allowMany
      yield* enqueue(1)
      const [job] = yield* poll("w", 0)
      if (job === undefined) return expect.fail("no job was claimed")
      const arrived = yield* Deferred.make<void>()
      const released = yield* Deferred.make<void>()
      lock = { arrived, released }
      const end = { id: job.id, lease: job.lease, outcome: Outcome.done(), log: [] }
      const finishing = yield* Effect.forkScoped(Effect.timeoutOption(remote.finish(about("w"), [end]), "5 seconds"))
      yield* Effect.addFinalizer(() =>
        Effect.zipRight(
          Effect.sync(() => {
            lock = undefined
          }),
          Deferred.succeed(released, undefined)
        )
      )
      yield* Deferred.await(arrived)
      yield* TestClock.adjust("6 seconds")
      expect(yield* Fiber.poll(finishing)).toEqual(Option.some(Exit.succeed(Option.none())))
      lock = undefined
      yield* Deferred.succeed(released, undefined)
      yield* TestClock.adjust("1 second")
      expect(yield* remote.finish(about("w"), [end])).toEqual(["done"])
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.scoped("get nothing beside a job that dies with the next crash", () =>
    Effect.gen(function* () {
      const remote = yield* RemoteWorkers
      yield* allowMany
      yield* enqueue(2)
      for (let crash = 0; crash < 4; crash += 1) {
        expect([...(yield* poll(`killed ${crash}`, 0)), ...(yield* poll(`killed ${crash}`, 0))]).toMatchObject([
          { crashCount: crash },
          { crashCount: crash }
        ])
        yield* passes(90, Effect.void)
      }
      const [first] = yield* poll("last", 0)
      expect(first).toMatchObject({ crashCount: 4 })
      expect(yield* poll("last", 0)).toEqual([])
      yield* remote.finish(about("last"), [{ ...first, outcome: Outcome.done(), log: [] } as never])
      expect(yield* poll("last", 0)).toMatchObject([{ crashCount: 4 }])
    }).pipe(Effect.provide(layer))
  )

  it.scoped("lose their jobs QUEUE_STALE_AFTER after their last heartbeat, and no attempt", () =>
    Effect.gen(function* () {
      const remote = yield* RemoteWorkers
      yield* enqueue(1)
      const [job] = yield* poll("killed", 0)
      if (job === undefined) return yield* Effect.dieMessage("no job")
      yield* passes(90, remote.heartbeat(about("killed"), [job]))
      const present = yield* passes(90, remote.heartbeat(about("killed"), [{ ...job, progress: "\u0000" }]))
      expect(yield* poll("other", 0)).toEqual([])
      expect(present).toContain(podIdOf(about("killed")))
      // Killed: it sends nothing any more.
      yield* passes(90, Effect.void)
      const [again] = yield* poll("other", 0)
      expect(again).toMatchObject({ id: job.id, attempt: 1, crashCount: 1 })
      expect(yield* remote.finish(about("killed"), [{ ...job, outcome: Outcome.done("late"), log: [] }])).toEqual([
        undefined
      ])
      expect(yield* remote.finish(about("other"), [{ ...again, outcome: Outcome.done(), log: [] } as never])).toEqual([
        "done"
      ])
      expect(yield* passes(90, Effect.void)).not.toContain(podIdOf(about("killed")))
    }).pipe(Effect.provide(layer))
  )

  it.scoped("have their progress stored, except for what cannot be stored", () =>
    Effect.gen(function* () {
      yield* enqueue(2)
      const remote = yield* RemoteWorkers
      const jobs = yield* JobSearch
      const [bad, good] = [yield* poll("w", 0), yield* poll("w", 0)].flat()
      if (bad === undefined || good === undefined) return yield* Effect.dieMessage("no jobs")
      const { held, stop } = yield* remote.heartbeat(about("w"), [
        { ...bad, progress: "a\u0000b" },
        { ...good, progress: { at: 1 } }
      ])
      expect(held.map(({ id, refused }) => [id, refused?.field])).toEqual([
        [bad.id, "progress"],
        [good.id, undefined]
      ])
      expect(stop).toEqual([])
      const stored = [yield* jobs.get(bad.id), yield* jobs.get(good.id)]
      expect(stored.map(({ progress }) => progress)).toEqual([undefined, { at: 1 }])
    }).pipe(Effect.provide(layer))
  )

  it.scoped("stay in the list of processes while a process hears from them that they did not claim from", () =>
    Effect.gen(function* () {
      yield* enqueue(1)
      const service = Layer.build(RemoteWorkers.layer)
      const [job] = yield* Effect.scoped(Effect.flatMap(service, (first) => Effect.provide(poll("moved", 0), first)))
      if (job === undefined) return yield* Effect.dieMessage("no job")
      const second = Context.get(yield* service, RemoteWorkers)
      const present = yield* passes(90, second.heartbeat(about("moved"), [job]))
      expect(present).toContain(podIdOf(about("moved")))
      // Without jobs, or with those of another worker, it is not kept.
      const others = second.heartbeat(about("other"), [job])
      expect(yield* passes(180, others)).toEqual([])
    }).pipe(Effect.provide(base))
  )

  it.scoped("leave through any process, and come back if they claim again", () =>
    Effect.gen(function* () {
      const service = Effect.map(Layer.build(RemoteWorkers.layer), Context.get(RemoteWorkers))
      const [first, second] = yield* Effect.all([service, service])
      const claim = (through: typeof second) => Effect.provideService(poll("w", 0), RemoteWorkers, through)
      yield* claim(first)
      yield* claim(second)
      expect(yield* passes(10, claim(second))).toEqual([podIdOf(about("w"))])
      yield* claim(second)
      yield* first.leave(about("w"))
      expect(yield* passes(20, Effect.void)).toEqual([])
      expect(yield* passes(20, claim(second))).toEqual([podIdOf(about("w"))])
      // At once, if a process that still knows it has found its row missing.
      yield* first.leave(about("w"))
      expect(yield* passes(10, Effect.void)).toEqual([])
      yield* claim(second)
      const pods = yield* Pods
      const present = yield* pods.present((yield* ClusterConfig).staleAfter)
      expect(present.map(({ id }) => id)).toEqual([podIdOf(about("w"))])
    }).pipe(Effect.provide(base))
  )

  it.scoped("may list their kinds and queues in any order", () =>
    Effect.gen(function* () {
      yield* enqueue(4, "q", "a")
      yield* enqueue(4, "r", "b")
      const orders = [
        { kinds: ["a", "b"], queues: ["q", "r"] },
        { kinds: ["b", "a"], queues: ["r", "q"] }
      ]
      beats = 0
      const served: Array<string> = []
      for (let turn = 0; turn < 4; turn++) {
        const [job] = yield* poll("w", 0, orders[turn % 2])
        if (job !== undefined) served.push(job.queue)
      }
      expect(beats).toBe(1)
      expect(served.toSorted()).toEqual(["q", "q", "r", "r"])
    }).pipe(Effect.provide(layer))
  )

  it.scoped("get jobs that become due while they wait", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      yield* queue.enqueue([{ queue: "q", kind: "k", version: 1, payload: 1, attempts: 5, runAt: 5_000 }])
      const waiting = yield* Effect.fork(poll("w", 30))
      yield* TestClock.adjust("4 seconds")
      expect(yield* Fiber.poll(waiting)).toMatchObject({ _tag: "None" })
      yield* TestClock.adjust("2 seconds")
      expect(yield* Fiber.join(waiting)).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  )
})
