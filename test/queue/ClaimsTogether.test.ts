import { expect, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Schedule } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Claims of many queues at the same time, which share statements.

const house = QueuePg.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layer))

const job = (queue: string, payload: unknown, more: Partial<NewJob> = {}): NewJob => ({
  kind: "test",
  version: 1,
  queue,
  payload,
  attempts: 5,
  ...more
})

const names = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}-${String(index).padStart(2, "0")}`)

const payloads = (jobs: ReadonlyArray<ClaimedJob>) => jobs.map(({ payload }) => payload)

/** The statements sent until the Scope closes, by name. */
const counted = Effect.gen(function* () {
  const { onStatement } = yield* Database
  const counts = new Map<string, number>()
  yield* onStatement((operation) => void counts.set(operation, (counts.get(operation) ?? 0) + 1))
  return (operation: string) => counts.get(operation) ?? 0
})

layer(house, { excludeTestServices: true })("claims of many queues at the same time", (it) => {
  it.scoped("share statements, and take the jobs of each queue in its order, up to its limit", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const ids = yield* makeGenerator
      const queues = names("shared", 30)
      yield* queue.enqueue(
        queues.flatMap((name) => [
          job(name, "later", { priority: 5 }),
          job(name, "first", { priority: -1 }),
          job(name, "second"),
          job(name, "third")
        ])
      )
      const count = yield* counted
      const claim = (limit: number) => (name: string) => queue.claim({ queue: name, pod: ids.pod(0), limit })
      const claimed = yield* Effect.forEach(queues, claim(3), { concurrency: "unbounded" })
      expect(claimed.map(payloads)).toEqual(queues.map(() => ["first", "second", "third"]))
      expect(claimed.map((jobs) => new Set(jobs.map(({ lease }) => lease)).size)).toEqual(queues.map(() => 1))
      expect(count("claim_together")).toBeGreaterThan(0)
      expect(count("claim_together") + count("claim_line")).toBeLessThan(queues.length / 2)

      const rest = yield* Effect.forEach([...queues, "shared-empty"], claim(3), { concurrency: "unbounded" })
      expect(rest.map(payloads)).toEqual([...queues.map(() => ["later"]), []])
      const { sql } = yield* Database
      const strays = yield* sql`select j.id from nightshift.job j where j.queue like 'shared%' and not exists
        (select from nightshift.lease l where l.id = j.lease and l.pod_id = j.pod_id and j.id = any(l.jobs))`
      expect(strays).toEqual([])
    })
  )

  it.scoped("never take a job twice, even if several of them are of one queue", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const ids = yield* makeGenerator
      const queues = names("twice", 5)
      yield* queue.enqueue(queues.flatMap((name) => Array.from({ length: 20 }, (_, index) => job(name, index))))
      const count = yield* counted
      const claims = Array.from({ length: 40 }, (_, index) => queues[index % queues.length] ?? "")
      const claimed = yield* Effect.forEach(claims, (name) => queue.claim({ queue: name, pod: ids.pod(0), limit: 3 }), {
        concurrency: "unbounded"
      })
      expect(count("claim_together")).toBeGreaterThan(0)
      const taken = claimed.flat().map(({ id }) => id)
      expect(new Set(taken).size).toBe(taken.length)
      const { sql } = yield* Database
      const running = yield* sql<{ id: string }>`
        select id from nightshift.job where queue like 'twice-%' and status = 'running'`
      expect(running.map(({ id }) => id).sort()).toEqual([...taken].sort())
    })
  )

  it.scoped("claim a job that has crashed a process alone, and nothing of a paused queue", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const ids = yield* makeGenerator
      const queues = names("mixed", 10)
      yield* queue.enqueue(queues.flatMap((name) => [job(name, 1), job(name, 2), job(name, 3)]))
      const { sql } = yield* Database
      yield* sql`update nightshift.job set crash_count = 1 where queue = 'mixed-03' and payload = '2'`
      yield* sql`update nightshift.job set crash_count = 1 where queue = 'mixed-04' and payload = '1'`
      const claim = (name: string) => queue.claim({ queue: name, pod: ids.pod(0), limit: 9 })
      // Known as running, then paused: the statement finds out.
      yield* (yield* Queues).change("mixed-05", { paused: true })
      const claimed = yield* Effect.forEach(queues, claim, { concurrency: "unbounded" })
      const expected = new Map<string, ReadonlyArray<number>>([
        ["mixed-03", [1]],
        ["mixed-04", [1]],
        ["mixed-05", []]
      ])
      expect(claimed.map(payloads)).toEqual(queues.map((name) => expected.get(name) ?? [1, 2, 3]))
    })
  )

  it.scoped("do not wait for a queue whose settings are being changed, which waits alone", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const ids = yield* makeGenerator
      const { sql, transaction } = yield* Database
      const queues = names("changed", 10)
      yield* queue.enqueue(queues.map((name) => job(name, name)))
      const [locked, release] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const change = yield* Effect.fork(
        transaction(
          Effect.gen(function* () {
            yield* sql`select pg_advisory_xact_lock(hashtextextended('nightshift.queue.changed-05', 0))`
            yield* Deferred.succeed(locked, undefined)
            yield* Deferred.await(release)
          })
        )
      )
      yield* Deferred.await(locked)
      const claim = (name: string) => Effect.fork(queue.claim({ queue: name, pod: ids.pod(0), limit: 9 }))
      const claims = yield* Effect.forEach(queues, claim)
      const [waiting] = claims.splice(5, 1)
      const others = yield* Effect.forEach(claims, Fiber.join)
      expect(others.map(payloads)).toEqual(queues.filter((name) => name !== "changed-05").map((name) => [name]))
      expect(yield* Fiber.poll(waiting as Fiber.RuntimeFiber<ReadonlyArray<ClaimedJob>, unknown>)).toMatchObject({
        _tag: "None"
      })
      yield* Deferred.succeed(release, undefined)
      expect(payloads(yield* Fiber.join(waiting as NonNullable<typeof waiting>))).toEqual(["changed-05"])
      yield* Fiber.join(change)
    })
  )

  it.scoped("are sent one by one after a slow statement, and together again once they are fast", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const ids = yield* makeGenerator
      const { sql, transaction } = yield* Database
      const queues = names("slow", 10)
      const count = yield* counted
      const claimAll = Effect.forEach(queues, (name) => queue.claim({ queue: name, pod: ids.pod(0), limit: 9 }), {
        concurrency: "unbounded"
      })
      yield* queue.enqueue(queues.map((name) => job(name, name)))
      const [locked, release] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const change = yield* Effect.fork(
        transaction(
          Effect.gen(function* () {
            yield* sql`lock table nightshift.lease in access exclusive mode`
            yield* Deferred.succeed(locked, undefined)
            yield* Deferred.await(release)
          })
        )
      )
      yield* Deferred.await(locked)
      const slow = yield* Effect.fork(claimAll)
      const waiting = sql<{ count: number }>`select count(*)::int as count from pg_locks
        where not granted and relation = 'nightshift.lease'::regclass and waitstart < clock_timestamp() - interval '400 ms'`
      yield* Effect.repeat(waiting, {
        until: ([row]) => (row?.count ?? 0) >= 2,
        schedule: Schedule.spaced("20 millis")
      })
      yield* Deferred.succeed(release, undefined)
      expect((yield* Fiber.join(slow)).map(payloads)).toEqual(queues.map((name) => [name]))
      yield* Fiber.join(change)
      const before = count("claim_together")
      expect(before).toBeGreaterThan(0)

      yield* claimAll
      expect(count("claim_together")).toBe(before)
      yield* Effect.repeat(claimAll, { until: () => count("claim_together") > before })
    })
  )
})
