import { expect, layer } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Layer, Random, Ref } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import type { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import type { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Guarantees between several processes that claim from one queue concurrently, each with its own pool and memory.

const job = (queue: string, more: Partial<NewJob> = {}): NewJob => ({
  kind: "test",
  version: 1,
  queue,
  payload: {},
  attempts: 50,
  ...more
})

/** Another process on the test's database. Without a listener it learns of changes by polling. */
const newPod = (listener: Layer.Layer<Listener.Listener, never, DatabaseUrl | DatabaseConfig> = Listener.layer) =>
  Effect.gen(function* () {
    const built = yield* Layer.build(
      QueuePg.layer.pipe(Layer.provide(listener), Layer.provide(Layer.fresh(Database.layer)), Layer.orDie)
    )
    const ids = yield* makeGenerator
    return { queue: Context.get(built, Queue), queues: Context.get(built, Queues), id: ids.pod(1) }
  })

const newPods = (count: number) => Effect.all(Array.from({ length: count }, () => newPod()))

const done = End.Done({ result: undefined })
const endOf = (run: ClaimedJob, end: End) => ({ id: run.id, lease: run.lease, queue: run.queue, key: run.key, end })

const countOf = (queue: string, status: string) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    const rows = yield* sql<{ count: number }>`
      select count(*)::int as count from nightshift.job where queue = ${queue} and status = ${status}`
    return rows[0]?.count ?? 0
  })

layer(TestDatabase.layer, { excludeTestServices: true })("a queue's settings, between processes", (it) => {
  it.scoped("claim nothing after a pause that the claiming process has not learned of", () =>
    Effect.gen(function* () {
      const operator = yield* newPod()
      const unaware = yield* newPod(Listener.layerPolling)
      yield* operator.queues.declare(["unaware"])
      yield* operator.queue.enqueue([job("unaware"), job("unaware")])
      const claim = unaware.queue.claim({ queue: "unaware", pod: unaware.id, limit: 1 })
      // Now it has a copy of the queue's row.
      expect(yield* claim).toHaveLength(1)
      yield* operator.queues.change("unaware", { paused: true })
      expect(yield* claim).toEqual([])
    })
  )

  it.scoped("claim nothing after a pause has returned, even with many concurrent claimers", () =>
    Effect.gen(function* () {
      const pods = yield* newPods(4)
      const [first] = pods
      if (first === undefined) return
      yield* first.queues.declare(["raced"])
      for (let batch = 0; batch < 10; batch += 1) {
        yield* first.queue.enqueue(Array.from({ length: 1_000 }, () => job("raced")))
      }
      const paused = yield* Ref.make(false)
      const late = yield* Ref.make(0)
      const claimer = (pod: (typeof pods)[number]) =>
        Effect.gen(function* () {
          for (let after = 0; after < 5; ) {
            const wasPaused = yield* Ref.get(paused)
            const claimed = yield* pod.queue.claim({ queue: "raced", pod: pod.id, limit: 3 })
            if (wasPaused) after += 1
            if (wasPaused) yield* Ref.update(late, (count) => count + claimed.length)
          }
        })
      const act = Effect.gen(function* () {
        yield* Effect.repeat(countOf("raced", "running"), { until: (count) => count > 100 })
        yield* first.queues.change("raced", { paused: true })
        const atReturn = yield* countOf("raced", "running")
        yield* Ref.set(paused, true)
        return atReturn
      })
      const [atReturn] = yield* Effect.all([act, ...[...pods, ...pods].map((pod) => Effect.as(claimer(pod), 0))], {
        concurrency: "unbounded"
      })
      expect(yield* Ref.get(late)).toBe(0)
      expect(yield* countOf("raced", "running")).toBe(atReturn)
      yield* first.queues.change("raced", { paused: false })
      const last = pods.at(-1)
      const resumed = yield* Effect.repeat(
        last?.queue.claim({ queue: "raced", pod: last.id, limit: 3 }) ?? Effect.succeed([]),
        {
          until: (claimed) => claimed.length > 0
        }
      )
      expect(resumed).toHaveLength(3)
    })
  )

  it.scoped("reach a process without notifications within a second or two", () =>
    Effect.gen(function* () {
      const deaf = yield* newPod(Listener.layerPolling)
      const other = yield* newPod()
      yield* deaf.queues.declare(["deaf"])
      yield* deaf.queue.enqueue(Array.from({ length: 10 }, (_, n) => job("deaf", { key: `k${n % 2}` })))
      const claim = deaf.queue.claim({ queue: "deaf", pod: deaf.id, limit: 1 })
      expect(yield* claim).toHaveLength(1)
      yield* other.queues.change("deaf", { paused: true })
      expect(yield* claim).toEqual([])
      yield* other.queues.change("deaf", { paused: false, perKey: { concurrency: 1, order: "none" } })
      const [run] = yield* Effect.repeat(claim, { until: (claimed) => claimed.length > 0 })
      expect(run?.key).toBe("k1")
      yield* other.queues.change("deaf", { rate: { jobs: 1, per: Duration.hours(1) }, perKey: null })
      const rated = yield* Effect.repeat(claim, { until: (claimed) => claimed.length > 0 })
      expect(rated).toHaveLength(1)
      expect(yield* claim).toEqual([])
    })
  )

  it.scoped("never run two jobs of a key at once, and run all of them", () =>
    Effect.gen(function* () {
      const pods = yield* newPods(4)
      const [first] = pods
      if (first === undefined) return
      yield* first.queues.declare(["keys"])
      yield* first.queues.change("keys", { perKey: { concurrency: 1, order: "serial" } })
      const stored = 600
      const jobs = Array.from({ length: stored }, (_, n) => job("keys", { key: `key-${n % 23}`, payload: n }))
      yield* first.queue.enqueue(jobs)
      const busy = new Set<string>()
      const order = new Map<string, Array<number>>()
      let overlaps = 0
      let finished = 0
      const began = (run: ClaimedJob) => {
        const key = run.key ?? ""
        if (busy.has(key)) overlaps += 1
        busy.add(key)
        order.set(key, [...(order.get(key) ?? []), Number(run.payload)])
      }
      const worker = (pod: (typeof pods)[number]) =>
        Effect.gen(function* () {
          while (finished < stored) {
            const claimed = yield* pod.queue.claim({ queue: "keys", pod: pod.id, limit: 5 })
            claimed.forEach(began)
            if (claimed.length === 0) yield* pod.queues.get("keys")
            if (yield* Random.nextBoolean) yield* pod.queue.heartbeat(claimed)
            // Removed before the end is written: after that another claimer may get the key.
            for (const { key } of claimed) busy.delete(key ?? "")
            finished += claimed.length
            if (claimed.length > 0) yield* pod.queue.finalize(claimed.map((run) => endOf(run, done)))
          }
        })
      yield* Effect.forEach([...pods, ...pods], worker, { concurrency: "unbounded" })
      expect(overlaps).toBe(0)
      expect(yield* countOf("keys", "done")).toBe(stored)
      for (const payloads of order.values()) expect(payloads).toEqual(payloads.toSorted((a, b) => a - b))
    })
  )

  it.scoped("keep a key's strict order through retries and crashes", () =>
    Effect.gen(function* () {
      const pods = yield* newPods(3)
      const [first] = pods
      if (first === undefined) return
      yield* first.queues.declare(["strict"])
      yield* first.queues.change("strict", { perKey: { concurrency: 1, order: "strict" } })
      const stored = 60
      yield* first.queue.enqueue(
        Array.from({ length: stored }, (_, n) => job("strict", { key: `key-${n % 5}`, payload: n }))
      )
      const order = new Map<string, Array<number>>()
      let finished = 0
      const worker = (pod: (typeof pods)[number]) =>
        Effect.gen(function* () {
          while (finished < stored) {
            const claimed = yield* pod.queue.claim({ queue: "strict", pod: pod.id, limit: 2 })
            if (claimed.length === 0) yield* pod.queues.get("strict")
            for (const run of claimed) {
              const luck = yield* Random.next
              const now = yield* Clock.currentTimeMillis
              const again = End.Again({ runAt: now, counted: false, error: "not yet", remember: "failed" })
              if (luck < 0.3) {
                yield* pod.queue.finalize([endOf(run, again)])
                continue
              }
              order.set(run.key ?? "", [...(order.get(run.key ?? "") ?? []), Number(run.payload)])
              finished += 1
              yield* pod.queue.finalize([endOf(run, done)])
            }
          }
        })
      yield* Effect.forEach(pods, worker, { concurrency: "unbounded" })
      for (const payloads of order.values()) expect(payloads).toEqual(payloads.toSorted((a, b) => a - b))
      expect([...order.values()].flat()).toHaveLength(stored)
    })
  )

  it.scoped("take no more than the rate with fifty concurrent claimers", () =>
    Effect.gen(function* () {
      const pods = yield* newPods(5)
      const [first] = pods
      if (first === undefined) return
      yield* first.queues.declare(["rated"])
      yield* first.queues.change("rated", { rate: { jobs: 40, per: Duration.hours(10) } })
      yield* first.queue.enqueue(Array.from({ length: 500 }, () => job("rated")))
      const claims = yield* Effect.all(
        Array.from({ length: 50 }, (_, n) => {
          const pod = pods[n % pods.length] ?? first
          return pod.queue.claim({ queue: "rated", pod: pod.id, limit: 7 })
        }),
        { concurrency: "unbounded" }
      )
      expect(claims.flat()).toHaveLength(40)
    })
  )

  it.scoped("serve every key in turn, even if one has thousands of due jobs", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const pod = yield* newPod()
      yield* pod.queues.declare(["fair"])
      yield* pod.queues.change("fair", { perKey: { concurrency: 2, order: "none" } })
      yield* sql`insert into nightshift.job
        (id, queue, kind, payload, key, run_at, max_attempts, created_at, updated_at)
        select gen_random_uuid(), 'fair', 'test', '{}', 'tenant-m', 'epoch', 5, 'epoch', 'epoch'
        from generate_series(1, 20_000::int)`
      yield* pod.queue.enqueue(["tenant-a", "tenant-z", "tenant-a"].map((key) => job("fair", { key })))
      const claim = pod.queue.claim({ queue: "fair", pod: pod.id, limit: 3 })
      expect((yield* claim).map(({ key }) => key)).toEqual(["tenant-a", "tenant-m", "tenant-z"])
      expect((yield* claim).map(({ key }) => key).sort()).toEqual(["tenant-a", "tenant-m"])
    })
  )

  it.scoped("let a pause through although a claim is always running", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const pods = yield* newPods(2)
      const [first, second] = pods
      if (first === undefined || second === undefined) return
      yield* first.queues.declare(["crowd"])
      yield* first.queue.enqueue([job("crowd")])
      // Two overlapping claim loops: at every instant a claim is running, unless they are made to wait.
      const { transaction } = yield* Database
      const stop = yield* Ref.make(false)
      const holder = Effect.repeat(
        transaction(
          Effect.zipRight(first.queue.claim({ queue: "crowd", pod: first.id, limit: 1 }), sql`select pg_sleep(0.03)`)
        ),
        { until: () => Ref.get(stop) }
      )
      const holders = yield* Effect.fork(
        Effect.all([holder, Effect.zipRight(sql`select pg_sleep(0.015)`, holder)], { concurrency: "unbounded" })
      )
      yield* second.queues.change("crowd", { paused: true })
      yield* Ref.set(stop, true)
      yield* holders.await
      expect(yield* second.queues.get("crowd")).toMatchObject({ paused: true })
    })
  )
})
