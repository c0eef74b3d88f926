import { expect, layer } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Fiber, FiberRef, Layer, Option } from "effect"
import { makeGenerator, type PodId } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Wakeups } from "../../src/queue/Wakeups.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Cases that need PostgreSQL with many sessions; the laws cover the rest.

const house = QueuePg.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layer))

const job = (queue: string, more: Partial<NewJob> = {}): NewJob => ({
  kind: "test",
  version: 1,
  queue,
  payload: {},
  attempts: 5,
  ...more
})

const newPod: Effect.Effect<PodId> = Effect.map(makeGenerator, (ids) => ids.pod(0))

/** Runs outside the current transaction: on the pool, like another caller. */
const outside = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.locally(effect, FiberRef.currentContext, Context.empty())

layer(house, { excludeTestServices: true })("the queue on PostgreSQL, under concurrency", (it) => {
  it.scoped("never hands one job to two claimers", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      yield* queue.enqueue(Array.from({ length: 1_000 }, () => job("contended")))
      const claimer = Effect.gen(function* () {
        const pod = yield* newPod
        const mine: Array<string> = []
        for (;;) {
          const claimed = yield* queue.claim({ queue: "contended", pod, limit: 7 })
          if (claimed.length === 0) return mine
          mine.push(...claimed.map(({ id }) => id))
        }
      })
      const hands = yield* Effect.all(
        Array.from({ length: 12 }, () => claimer),
        { concurrency: "unbounded" }
      )
      const all = hands.flat()
      expect(new Set(all).size).toBe(all.length)
      // A claimer that found only locked rows may have stopped early; the remaining jobs can still be claimed.
      const { sql } = yield* Database
      const pending = yield* sql<{ count: number }>`
        select count(*)::int as count from nightshift.job where queue = 'contended' and status = 'pending'`
      expect(all.length + (pending[0]?.count ?? 0)).toBe(1_000)
    })
  )

  it.scoped("stores many similar jobs once, even if their connection breaks midway", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { schema } = yield* Database
      const other = yield* TestDatabase.connection
      const breaker = yield* TestDatabase.connection
      yield* Effect.promise(() => other.query(`begin; lock table ${schema}.job in exclusive mode`))
      const storing = yield* Effect.fork(
        queue.enqueue(Array.from({ length: 200 }, (_, n) => job("broken", { payload: { n } })))
      )
      const breakIt = () =>
        breaker.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock' and query like '%insert into%'`
        )
      yield* Effect.repeat(Effect.promise(breakIt), { until: ({ rowCount }) => (rowCount ?? 0) > 0 })
      yield* Effect.promise(() => other.query("commit"))
      const answers = yield* Fiber.join(storing)
      const { sql } = yield* Database
      const stored = yield* sql<{ id: string; payload: { n: number } }>`
        select id, payload from nightshift.job where queue = 'broken' order by id`
      expect(stored).toEqual(answers.map(({ id }, n) => ({ id, payload: { n } })))
      expect(answers).toHaveLength(200)
    })
  )

  it.scoped("completes a running enqueue even if its caller is interrupted", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { schema, sql } = yield* Database
      const [holder, watcher] = [yield* TestDatabase.connection, yield* TestDatabase.connection]
      yield* Effect.promise(() => holder.query(`begin; lock table ${schema}.job in exclusive mode`))
      const storing = yield* Effect.fork(queue.enqueue(Array.from({ length: 200 }, () => job("interrupted"))))
      const waiting = Effect.promise(() =>
        watcher.query(
          `select from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock' and query like '%insert into%'`
        )
      )
      yield* Effect.repeat(waiting, { until: ({ rowCount }) => (rowCount ?? 0) > 0 })
      const ending = yield* Effect.fork(Fiber.interrupt(storing))
      yield* waiting
      expect(yield* Fiber.poll(ending)).toEqual(Option.none())
      yield* Effect.promise(() => holder.query("commit"))
      yield* Fiber.join(ending)
      expect(yield* sql`select id from nightshift.job where queue = 'interrupted'`).toHaveLength(200)
    })
  )

  it.scoped("reports in a caller's transaction why an end failed, and does not retry it there", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql, transaction } = yield* Database
      yield* queue.enqueue([job("conflicting")])
      const [claimed] = yield* queue.claim({ queue: "conflicting", pod: yield* newPod, limit: 1 })
      if (claimed === undefined) throw new Error("nothing was claimed")
      const { id, lease } = claimed
      for (const end of [End.Done({ result: undefined }), End.Done({ result: '"some"' })]) {
        const failure = yield* transaction(
          Effect.gen(function* () {
            yield* sql`set transaction isolation level repeatable read`
            yield* sql`select from nightshift.job`
            // Another session changes the row after this transaction's snapshot.
            yield* outside(sql`update nightshift.job set priority = priority + 1 where id = ${id}`)
            yield* queue.finalize([{ id, lease, end, queue: "conflicting" }])
          })
        ).pipe(Effect.flip)
        expect(failure).toMatchObject({ _tag: "DatabaseUnavailable", sqlState: "40001" })
      }
      expect(
        yield* queue.finalize([{ id, lease, end: End.Done({ result: undefined }), queue: "conflicting" }])
      ).toEqual([])
    })
  )

  it.scoped("stores a thousand single enqueues of many fibers, each once", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const answers = yield* Effect.forEach(Array.from({ length: 1_000 }), () => queue.enqueue([job("singles")]), {
        concurrency: "unbounded"
      })
      expect(new Set(answers.flat().map(({ id }) => id)).size).toBe(1_000)
    })
  )

  it.scoped("does not deadlock when batches hold the same keys in opposite order", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const keys = Array.from({ length: 50 }, (_, index) => `opposite-${index}`)
      const batch = (order: ReadonlyArray<string>) =>
        queue.enqueue(order.map((key) => job("opposite", { dedupe: { key, scope: "active" } })))
      const rounds = Array.from({ length: 20 }, (_, round) => batch(round % 2 === 0 ? keys : [...keys].reverse()))
      const answers = yield* Effect.all(rounds, { concurrency: "unbounded" })
      expect(answers.flat().filter(({ outcome }) => outcome === "enqueued")).toHaveLength(50)
    })
  )

  it.scoped("stores other jobs while one key is locked by an open transaction", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql, transaction } = yield* Database
      const single = (key: string) => queue.enqueue([job("held", { dedupe: { key, scope: "active" } })])
      const waiting = yield* transaction(
        Effect.gen(function* () {
          yield* single("held-key")
          // Outside this transaction: the held key, and ten others that share its batch.
          const blocked = yield* Effect.forkDaemon(outside(single("held-key")))
          const neighbours = yield* Effect.forEach(
            Array.from({ length: 10 }, (_, index) => `free-${index}`),
            (key) => outside(single(key)),
            { concurrency: "unbounded" }
          )
          expect(neighbours.flat().every(({ outcome }) => outcome === "enqueued")).toBe(true)
          return blocked
        })
      )
      const [answer] = yield* Fiber.join(waiting)
      expect(answer?.outcome).toBe("deduplicated")
      expect(yield* sql`select count(*)::int as count from nightshift.job where dedupe_key = 'held-key'`).toEqual([
        { count: 1 }
      ])
    })
  )

  it.scoped("notifies other processes of new jobs at commit", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const wakeups = yield* Wakeups
      const other = yield* TestDatabase.connection
      const heard = new Promise<string>((resolve) => {
        other.on("notification", ({ payload = "" }) => (payload.startsWith("hinted ") ? resolve(payload) : undefined))
      })
      yield* Effect.promise(() => other.query("listen nightshift_work"))
      let woken = 0
      yield* wakeups.onWake("hinted", () => {
        woken += 1
      })
      yield* queue.enqueue([job("hinted")])
      expect(woken).toBeGreaterThan(0)
      expect(yield* Effect.promise(() => heard)).toMatch(/^hinted [0-9a-f]+$/)
    })
  )

  it.scoped("wakes its own workers once for a job that it stores, and at each notification of another process", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const wakeups = yield* Wakeups
      const other = yield* TestDatabase.connection
      const woken = { echoed: 0 }
      yield* wakeups.onWake("echoed", () => {
        woken.echoed += 1
      })
      // Notifications arrive in order, so those of earlier jobs have arrived when this one does.
      const untilAllArrived = Effect.scoped(
        Effect.gen(function* () {
          const arrived = yield* Deferred.make<void>()
          yield* wakeups.onWake("barrier", () => Deferred.unsafeDone(arrived, Effect.void))
          yield* Effect.promise(() => other.query("select pg_notify('nightshift_work', 'barrier')"))
          yield* Deferred.await(arrived)
        })
      )
      yield* untilAllArrived
      // The listener wakes every queue when it connects, which may have been just now.
      woken.echoed = 0
      yield* queue.enqueue([job("echoed")])
      yield* untilAllArrived
      expect(woken.echoed).toBe(1)
      yield* Effect.promise(() => other.query("select pg_notify('nightshift_work', 'echoed 0123456789ab')"))
      yield* untilAllArrived
      expect(woken.echoed).toBe(2)
    })
  )

  it.scoped("notifies of consecutive jobs as soon as each is stored", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const other = yield* TestDatabase.connection
      let heard = 0
      other.on("notification", ({ payload }) => {
        if (payload?.startsWith("following ")) heard += 1
      })
      yield* Effect.promise(() => other.query("listen nightshift_work"))
      for (let stored = 1; stored <= 8; stored += 1) {
        yield* queue.enqueue([job("following")])
        // Notifications sent before an answer arrive before it.
        yield* Effect.promise(() => other.query("select 1"))
        expect(heard).toBe(stored)
      }
    })
  )

  it.scoped("finds jobs before its cursor within a second after a short claim", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      const pod = yield* newPod
      yield* queue.enqueue([job("cursor")])
      expect(yield* queue.claim({ queue: "cursor", pod, limit: 10 })).toHaveLength(1)
      // Stored by another process: an old job, with a priority this process has not seen.
      const ids = yield* makeGenerator
      for (const priority of [0, -5]) {
        yield* sql`insert into nightshift.job (id, queue, kind, payload, priority, run_at, max_attempts, created_at, updated_at)
          values (${ids.job(1)}, 'cursor', 'test', '{}', ${priority}, 'epoch', 5, 'epoch', 'epoch')`
      }
      const found = yield* Effect.repeat(queue.claim({ queue: "cursor", pod, limit: 10 }), {
        until: (claimed) => claimed.length > 0
      })
      expect(found.length).toBe(2)
    })
  )

  it.scoped("knows a job again that a move of its queue holds", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      const id = (yield* makeGenerator).job(1)
      for (const held of ["moved>main>mail-2", "moved"]) {
        expect(yield* queue.enqueue([job("moved", { id })])).toEqual([{ id, outcome: "enqueued" }])
        yield* sql`update nightshift.job set queue = ${held} where id = ${id}`
      }
      expect(yield* Effect.flip(queue.enqueue([job("other", { id })]))).toMatchObject({ _tag: "JobIdTaken" })
    })
  )

  it.scoped("purges in bounded statements, however many rows there are", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      yield* sql`insert into nightshift.job
        (id, queue, kind, payload, run_at, max_attempts, created_at, updated_at, status, finished_at)
        select gen_random_uuid(), 'old', 'test', '{}', 'epoch', 5, 'epoch', 'epoch', 'done', 'epoch'
        from generate_series(1, 12000)`
      expect((yield* queue.purge(Duration.hours(1))).done).toBe(12_000)
    })
  )
})
